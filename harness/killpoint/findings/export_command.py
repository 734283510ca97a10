"""The command line of ``killpoint export``: a finding for those who do not have killpoint."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from killpoint.errors import BadUsage
from killpoint.findings import programs
from killpoint.findings.issue import issue, issue_of_replay, of_range
from killpoint.findings.registry import Finding, finding, findings
from killpoint.scenario import Scenario, load

_PLAYED = '''"""{case} on {target}, played by killpoint."""

from pathlib import Path

from killpoint.judgement.replay import replay

SCENARIO = r"""
{text}
"""


def test_{name}(tmp_path: Path) -> None:
    file = tmp_path / "replay.toml"
    file.write_text(SCENARIO, "utf-8")
    played = replay(file, {target!r})
    assert played.status() == 0, [outcome.cause for outcome in played.outcomes]
'''


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "export",
        help="a finding, or a replay, as a program by itself, a pytest test, or an issue",
        description="A script exits 1 if it shows the bug, 0 if not, 2 if it could not try. It"
        " imports an installed vllm; or, if TARGET_TREE names the folder that has vllm/ in it, the"
        " files there. Nothing is sent anywhere.",
        epilog="Exit status: 0 written; 2 bad usage, such as a finding without a script; 70"
        " killpoint could not do its work.",
    )
    parser.set_defaults(command=_export)
    parser.add_argument("what", metavar="ID|REPLAY", help="a finding's id, or a replay's file")
    parser.add_argument(
        "--as",
        dest="form",
        choices=("script", "pytest", "issue"),
        required=True,
        help="script: a program by itself; pytest: a test that fails while the bug is there;"
        " issue: Markdown with the place at the release's tag, and a fix as a diff",
    )
    parser.add_argument(
        "--release",
        metavar="X.Y.Z",
        help="the release that it speaks of (default: the newest that is known to have it)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")


def exported(what: str, form: str, release: str | None = None) -> str:
    """The text of one export.

    Raises:
        BadUsage: neither a finding nor a replay, or there is none in this form.
        CannotWork: a release's files are needed, and cannot be had.
    """
    file = Path(what)
    if not file.is_file() and (len(file.parts) > 1 or file.suffix):
        raise BadUsage(f"{what}: there is no such file")
    known = None if file.is_file() else finding(what)
    if known is None:
        scenario = load(file)
        known = _whose(scenario)
        if known is None or form == "pytest":
            return _of_replay(file, scenario, form)
    chosen = of_range(known, release)
    if form == "script":
        return programs.script(known, chosen)
    if form == "pytest":
        return programs.test(known, chosen)
    return issue(known, chosen)


def _export(options: argparse.Namespace) -> int:
    text = exported(options.what, options.form, options.release)
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, "utf-8")
    return 0


def _whose(scenario: Scenario) -> Finding | None:
    """The finding that a replay's case is the exhibit of, in a target that can have it."""
    project = re.split("[=@~:]", scenario.target)[0]
    found = [each for each in findings().values() if each.exhibit == scenario.case]
    return next((each for each in found if project in each.projects), None)


def _of_replay(file: Path, scenario: Scenario, form: str) -> str:
    if form == "script":
        raise BadUsage(
            f"{file}: only findings of the registry have scripts, and {scenario.case} is the"
            " exhibit of none; try --as pytest, which plays the file with killpoint"
        )
    if form == "issue":
        return issue_of_replay(file, scenario)
    return _PLAYED.format(
        case=scenario.case,
        target=scenario.target or "refengine",
        text=file.read_text("utf-8").strip(),
        name=re.sub(r"\W+", "_", scenario.case).strip("_").lower(),
    )
