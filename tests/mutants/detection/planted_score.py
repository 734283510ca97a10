"""The score of planted bugs: found by generated histories, by the project's own tests, and how."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from planted import PLANTED
from planted.bug import PlantedBug
from served import served

GENERATED = {
    "queue": "H1",
    "group": "H2",
    "pool": "H3",
    "pipe": "H4",
    "coordinator": "H5",
    "engine": "H6",
    "server": "H7",
}
"""Invariant that is judged by generated programs, by system."""
_TESTS = {"queue": ("queue", "ring"), "pool": ("executor",), "server": ("serving",)}
"""Folders of the system's tests below ``tests/impl``, where its name is not that of the folder."""
_WITHIN = 900.0
_TESTS_WITHIN = 240.0
"""Seconds for the tests of a few systems: they take a fifth of it. A test may wait for ever."""
_HUNG = "a test did not end"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/[^ ]+?(?:\[.*?\])?)(?: - |$)", re.MULTILINE)


class Score(msgspec.Struct, omit_defaults=True):
    """What found a bug."""

    bug: str
    system: str
    seed: int = 0
    kind: str = ""
    """Kind of violation that the check told; empty: none."""
    case: str = ""
    cause: str = ""
    seconds: float = 0.0
    """Seconds of that check, from its start to its card; the violation is told before."""
    campaign: str = ""
    """What ten minutes of a campaign found of a bug that the check missed: kind, case and time."""
    names_it: bool | None = None
    """Whether the cause says what an engineer would look for; read by a person."""
    tested: bool = False
    """Whether the tests were run."""
    test: str = ""
    """The first test that failed; empty: none did."""
    tests_seconds: float = 0.0


def main(root: Path, arguments: Sequence[str] | None = None) -> int:
    """Score bugs anew, and keep what is known of the others."""
    parser = argparse.ArgumentParser(prog="planted.py", description=__doc__)
    parser.add_argument("bugs", nargs="*", help="default: all")
    parser.add_argument("--by", choices=("check", "tests"), help="default: none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scores", type=Path, help="instead of docs/planted.json")
    options = parser.parse_args(arguments)
    file = options.scores or root / "docs" / "planted.json"
    chosen = [bug for bug in PLANTED if not options.bugs or bug.name in options.bugs]
    for bug in chosen if options.by else ():
        score = load(file).get(bug.name, Score(bug.name, bug.system))
        if options.by == "check":
            by_check(root, bug, score, options.seed)
            what = f"{score.kind} by {score.case}" if score.kind else "not found"
            told = f"{what} in {score.seconds} s: {score.cause}"
        else:
            by_tests(root, bug, score)
            told = f"{score.test or 'no test failed'} ({score.tests_seconds} s)"
        print(f"{bug.name}: {told}", flush=True)
        save(file, load(file) | {bug.name: score})
    return 0


def by_check(root: Path, bug: PlantedBug, score: Score, seed: int) -> None:
    """Judge it by the generated programs of its system."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        spec = f"mutated:{bug.name}"
        if bug.system == "server":
            spec = served(bug.name, Path(folder))
        asked = ["--target", spec, "--only", GENERATED[bug.system], "--seed", str(seed)]
        told = ["--shrink", "0", "--no-attribution", "--out", folder, "--json"]
        environment = os.environ | {"PYTHONPATH": str(root / "tests" / "mutants")}
        began = time.monotonic()
        check = [sys.executable, "-m", "killpoint.cli", "check", *asked, *told]
        done = subprocess.run(check, env=environment, stdout=subprocess.PIPE, timeout=_WITHIN)
        score.seconds, score.seed = round(time.monotonic() - began, 1), seed
    cases = json.loads(done.stdout)["invariants"][GENERATED[bug.system]]["cases"]
    score.kind = score.case = score.cause = ""
    for case in cases:
        if case["outcome"] == "violated" and not score.kind:
            score.kind, score.case, score.cause = case["kind"], case["id"], case["cause"]


def by_tests(root: Path, bug: PlantedBug, score: Score) -> None:
    """Run the tests of its system, and of the folders that it is in, up to one that fails.

    A test that passes when it is run again alone has failed for another reason.
    """
    areas = [*_TESTS.get(bug.system, (bug.system,)), *(e.file.split("/")[0] for e in bug.edits)]
    folders = [f"tests/impl/{area}" for area in dict.fromkeys(areas)]
    began = time.monotonic()
    score.tested, score.test, passing = True, "", list[str]()
    while not score.test:
        left = [word for test in passing for word in ("--deselect", test)]
        there = [folder for folder in folders if (root / folder).is_dir()]
        failed = _failing(root, bug, ["-x", "-n", "2", *left, *there])
        if failed in ("", _HUNG):
            score.test = failed
            break
        score.test = _failing(root, bug, ["-n", "0", failed])
        passing.append(failed)
    score.tests_seconds = round(time.monotonic() - began, 1)


def _failing(root: Path, bug: PlantedBug, asked: Sequence[str]) -> str:
    """Return a test that fails with the bug in, or that one hung; empty: none does."""
    broken = {
        "REFENGINE_MUTANT": bug.name,
        "PYTHONPATH": str(root / "tests" / "mutants" / "spawned"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *asked],
        env=os.environ | broken,
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=_TESTS_WITHIN)
    except subprocess.TimeoutExpired:
        return _HUNG
    finally:
        with contextlib.suppress(ProcessLookupError):  # nothing of the session is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    failed = _FAILED.search(said)
    if process.returncode not in (0, 1) and not failed:
        raise RuntimeError(f"pytest ended with status {process.returncode}: {said[-2000:]}")
    return failed.group(1) if failed else ""


def section(scores: Sequence[Score]) -> str:
    """The score as a page shows it: what it comes to, and a row for each bug."""
    links = {bug.name: bug.link for bug in PLANTED}
    lines = ["| bug, and the one it is after | system | plain check | its cause names it | tests |"]
    lines.append("| --- | --- | --- | --- | --- |")
    for score in scores:
        found = f"**{score.kind}** by {score.case}, {score.seconds:.0f} s" if score.kind else "no"
        found += f"; campaign: {score.campaign}" if score.campaign else ""
        names = "" if not score.kind else _NAMES[score.names_it]
        tests = _noticed(score)
        bug = f"[`{score.bug}`]({links[score.bug]})"
        lines.append(f"| {bug} | {score.system} | {found} | {names} | {tests} |")
    checked = sum(bool(score.kind) for score in scores)
    named = sum(score.names_it is True for score in scores)
    tried = [score for score in scores if score.tested]
    more = sum(bool(score.campaign) for score in scores if not score.kind)
    told = [f"- plain check: {checked} of {len(scores)} found"]
    if more:
        told.append(f"- with ten minutes of a campaign for each that it missed: {checked + more}")
    told.append(f"- its cause names what an engineer would look for: {named} of {checked}")
    if tried:
        noticed = sum(bool(score.test) for score in tried)
        told.append(f"- the reference's own tests: {noticed} of {len(tried)} noticed")
    return "\n".join([*told, "", *lines, ""])


def _noticed(score: Score) -> str:
    if score.test in ("", _HUNG):
        return score.test or _TESTED[score.tested]
    return f"`{score.test.rpartition('::')[2]}`"


_NAMES = {None: "", True: "yes", False: "no"}
_TESTED = {True: "no", False: "not run"}


def load(file: Path) -> dict[str, Score]:
    """The scores that are known, by bug."""
    if not file.exists():
        return {}
    scores = msgspec.json.decode(file.read_bytes(), type=list[Score])
    return {score.bug: score for score in scores}


def save(file: Path, scores: dict[str, Score]) -> None:
    """Keep them, a line each, in the order of the bugs."""
    rows = [scores[bug.name] for bug in PLANTED if bug.name in scores]
    lines = ",\n".join(msgspec.json.encode(row).decode() for row in rows)
    file.write_text(f"[\n{lines}\n]\n", "utf-8")
