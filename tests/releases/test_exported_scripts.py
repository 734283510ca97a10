"""Exported scripts on real releases: red with the bug, green without it, and without killpoint."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import pytest
from release_files import release_files

from killpoint.findings.export_command import exported
from killpoint.findings.issue import of_range
from killpoint.findings.programs import with_script
from killpoint.findings.registry import SERVER, finding, findings
from killpoint.targets.edits import Edits
from killpoint.targets.vllm.sources import Sources
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS, applied

pytestmark = pytest.mark.network

_AT_ONCE = ("confused-senders",)
"""Of the scripts that take a few seconds one; the others under ``--full``."""
HELD, SHOWN = 0, 1


class Ran(NamedTuple):
    status: int
    told: str


Play = Callable[[str, Path], Ran]


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """The environment of an interpreter that has torch and zmq, and in which there is no killpoint.

    With ``-S`` it follows no path files, by which an editable killpoint is found.
    """
    barred = tmp_path / "barred"
    barred.mkdir()
    (barred / "killpoint.py").write_text("raise ImportError('killpoint was imported')", "utf-8")
    path = os.pathsep.join([str(barred), *site.getsitepackages()])
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": path}


@pytest.fixture
def play(tmp_path: Path, alone: dict[str, str]) -> Play:
    def played(text: str, tree: Path) -> Ran:
        script = tmp_path / "script.py"
        script.write_text(text, "utf-8")
        ran = subprocess.run(
            [sys.executable, "-S", str(script)],
            env=alone | {"TARGET_TREE": str(tree)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return Ran(ran.returncode, f"{ran.stdout}{ran.stderr}")

    return played


def _without_its_bug(id: str, sources: Sources, into: Path) -> Path:
    """A copy of a release's files, with a switch-off's edits made to them."""
    shutil.copytree(sources.root, into)
    edited = 0
    for path in into.rglob("*.py"):
        before = path.read_bytes()
        after = applied((id,), path, before)
        edited += before != after
        path.write_bytes(after)
    assert edited
    return into


def _silence_is_told(edits: Edits) -> None:
    """Not a fix: five seconds without a message are an error."""
    edits.begin(
        edits.function("MessageQueue.recv"),
        """
        if timeout is None and not socket.poll(5000):
            raise RuntimeError("nothing came")
        """,
    )


_CONTROLS = {"silent-cut": ("shm_broadcast.py", _silence_is_told)}
"""Of what has neither a switch-off nor a release that fixed it: an edit that ends what is seen."""


def _controlled(id: str, sources: Sources, into: Path) -> Path:
    name, edit = _CONTROLS[id]
    shutil.copytree(sources.root, into)
    path = next(into.rglob(name))
    edits = Edits(path.read_text("utf-8"))
    edit(edits)
    path.write_text(edits.text(), "utf-8")
    return into


def _is_of_servers(id: str) -> bool:
    """Whether it needs an installed vllm: test_real_engine.py has one."""
    return SERVER in finding(id).projects


def _long(id: str) -> object:
    return id if id in _AT_ONCE else pytest.param(id, marks=pytest.mark.full)


@pytest.mark.parametrize("id", [_long(id) for id in with_script() if not _is_of_servers(id)])
def test_a_script_shows_the_bug_where_it_is_and_nowhere_else(
    id: str, play: Play, tmp_path: Path
) -> None:
    entry, text = finding(id), exported(id, "script")
    bad = release_files(of_range(entry, None))
    red = play(text, bad.root)
    assert red.status == SHOWN, red.told
    if id in SWITCH_OFFS:
        green = play(text, _without_its_bug(id, bad, tmp_path / "edited"))
        assert green.status == HELD, green.told
    if id in _CONTROLS:
        control = play(text, _controlled(id, bad, tmp_path / "control"))
        assert control.status == HELD, control.told
    assert id in SWITCH_OFFS or id in _CONTROLS or entry.fixed
    if entry.fixed:
        fixed = play(text, release_files(entry.fixed).root)
        assert fixed.status == HELD, fixed.told


@pytest.mark.full
def test_the_test_fails_where_the_bug_is_and_nowhere_else(
    alone: dict[str, str], tmp_path: Path
) -> None:
    """vllm is not installed here: the files' loader stands in for it, as the test's conftest."""
    folder = tmp_path / "tests"
    folder.mkdir()
    loader = resources.files("killpoint.findings") / "scripts" / "_loader.py"
    (folder / "conftest.py").write_text(loader.read_text("utf-8"), "utf-8")
    (folder / "test_late_replies.py").write_text(exported("late-replies", "pytest"), "utf-8")

    def ended(tree: Path) -> Ran:
        env = alone | {"TARGET_TREE": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [sys.executable, "-S", "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
        ran = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False
        )
        return Ran(ran.returncode, ran.stdout)

    bad = release_files("0.33.0")
    red = ended(bad.root)
    assert (red.status, "1 failed" in red.told) == (1, True), red.told
    green = ended(_without_its_bug("late-replies", bad, tmp_path / "edited"))
    assert (green.status, "1 passed" in green.told) == (0, True), green.told


@pytest.mark.parametrize("id", [_long(e.id) for e in findings().values() if "vllm" in e.projects])
def test_an_issue_names_the_line_that_has_it_and_how_to_fix_it(id: str, tmp_path: Path) -> None:
    entry, release = finding(id), of_range(finding(id), None)
    text, sources = exported(id, "issue"), release_files(release)
    for part in ("Symptom", "Cause", "Mechanism", "Cost", "What masks it", "First bad release"):
        assert f"\n**{part}.** " in text
    assert all(thread in text for thread in entry.threads)
    link = re.search(r"/blob/v([\d.]+)/(vllm/\S+\.py)#L(\d+)\)", text)
    assert link is not None
    assert (link[1], link[2]) == (release, f"vllm/{entry.place.file}")
    line = (sources.root / link[2]).read_text("utf-8").splitlines()[int(link[3]) - 1]
    assert re.match(rf"\s*(def|class) {entry.place.function.rpartition('.')[2]}\b", line)
    if id not in SWITCH_OFFS:
        assert "**Suggested fix.** The one of " in text or entry.no_switch_off in text
        return
    tree, patch = tmp_path / "tree", tmp_path / "fix.diff"
    shutil.copytree(sources.root, tree)
    patch.write_text(text.partition("```diff\n")[2].partition("```")[0], "utf-8")
    subprocess.run(["git", "apply", str(patch)], cwd=tree, check=True, timeout=30)
    edited = _without_its_bug(id, sources, tmp_path / "edited")
    for path in edited.rglob("*.py"):
        assert (tree / path.relative_to(edited)).read_bytes() == path.read_bytes()
