"""The implementation and the harness live without each other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Every Python process below, zygotes and roles too, is one in which the package is not installed.
_NOT_INSTALLED = """
import importlib.machinery, sys

class Without(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            return None
        return super().find_spec(name, path, target)

old = importlib.machinery.PathFinder
sys.meta_path[:] = [Without if finder is old else finder for finder in sys.meta_path]
"""

_WALK = """
import importlib, pkgutil, sys
import {package}

names = [found.name for found in pkgutil.walk_packages({package}.__path__, "{package}.")]
for name in names:
    if not name.startswith({leave_out!r}) and not name.endswith("__main__"):
        importlib.import_module(name)
assert len(names) > 20, names
assert not [name for name in sys.modules if name.partition(".")[0] == {absent!r}]
print("ok")
"""

_MESSAGES = """
import os
import numpy as np
from refengine.queue import MessageQueue

writer = MessageQueue(1)
handle = writer.export_handle()
pid = os.fork()
if pid == 0:
    status = 1
    try:
        reader = MessageQueue.create_from_handle(handle, 0)
        reader.wait_until_ready(20)
        got = [reader.dequeue(20) for _ in range(3)]
        status = 0 if got[:2] == ["first", b"second"] and got[2].sum() == 1 << 21 else 2
        reader.close()
    finally:
        os._exit(status)
writer.wait_until_ready(20)
for message in ("first", b"second", np.ones(1 << 21, np.uint8)):
    writer.enqueue(message, 20)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
writer.close()
try:
    import killpoint
except ModuleNotFoundError:
    print("ok")
"""


def python(
    folder: Path, absent: str, *paths: Path, arguments: list[str]
) -> subprocess.CompletedProcess[str]:
    """Run Python where one of the two packages is absent, with only these paths given."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(_NOT_INSTALLED.format(package=absent), "utf-8")
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(path) for path in (site, *paths))},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=90,
    )


class TestTheImplementationAlone:
    @pytest.mark.parametrize(
        "script",
        [_WALK.format(package="refengine", absent="killpoint", leave_out=()), _MESSAGES],
        ids=["imports", "passes-messages"],
    )
    def test_it_needs_no_harness(self, tmp_path: Path, script: str):
        ended = python(tmp_path, "killpoint", ROOT / "impl", arguments=["-c", script])
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ok\n", "")


class TestTheHarnessAlone:
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Path:
        copy = tmp_path / "harness"
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "harness", copy, ignore=ignored)
        return copy

    def check(self, harness: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["-m", "killpoint.cli", "check", "--out", "runs", "--jobs", "1", *arguments]
        examples = ROOT / "tests" / "examples"
        return python(harness.parent, "refengine", harness, examples, arguments=command)

    def test_all_of_it_but_one_adapter_imports(self, harness: Path):
        script = _WALK.format(
            package="killpoint", absent="refengine", leave_out=("killpoint.targets.refengine",)
        )
        ended = python(harness.parent, "refengine", harness, arguments=["-c", script])
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ok\n", "")

    @pytest.mark.full  # one that is convicted is told at every commit
    def test_another_queue_is_judged(self, harness: Path):
        ended = self.check(harness, "--target", "pipe_queue:PipeTarget", "--only", "R3,Q11")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "2 holds" in ended.stdout

    def test_another_queue_is_convicted(self, harness: Path):
        ended = self.check(harness, "--target", "broken_pipes:RepeatsOne", "--only", "R3")
        assert ended.returncode == 1
        assert ended.stderr.startswith("✗ R3/stream: duplicate: reader-0 received message")
        assert "R3/stream: duplicate" in ended.stdout

    def test_the_absent_target_is_one_line(self, harness: Path):
        ended = self.check(harness, "--target", "refengine", "--only", "R3")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == "target refengine: the package refengine is not installed here\n"
        assert not (harness.parent / "runs").exists()
