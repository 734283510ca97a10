"""Stacks that hang on purpose, in five ways: the one to blame is named, nobody is disturbed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.inspection.collect import look
from killpoint.inspection.model import Picture
from killpoint.inspection.processes import tree
from killpoint.inspection.regions import shared

_HUNG = Path(__file__).with_name("hung.py")
_WITHIN = 60.0
_OURS = [
    ("refengine", "queue", "stopped", "is stopped by a signal"),
    ("refengine", "ring", "killed", "no longer maps it"),
    ("refengine", "queue", "lost", "its wake-up was lost"),
    ("refengine", "queue", "full", "think (hung.py"),
    ("refengine", "pool", "stopped", "is stopped by a signal"),
    ("refengine", "pool", "absent", "Worker.meet (hung.py"),
]
_VLLM = [("vllm==0.33.0", "queue" if kind == "ring" else kind, *rest) for _, kind, *rest in _OURS]
_VLLM.append(("vllm==0.33.0", "queue", "orphaned", "whose writer is gone"))
_OFTEN = ("queue", "orphaned")


def _by_way(row: tuple[str, ...]) -> object:
    marks = [pytest.mark.network] if row[0] != "refengine" else []
    if marks and row[1:3] != _OFTEN:
        marks.append(pytest.mark.full)
    return pytest.param(*row, id="-".join(row[:3]), marks=marks)


@contextlib.contextmanager
def _hanging(*words: str, folder: Path) -> Iterator[tuple[int, int | None]]:
    """The stack's pid, and whom one must name. All of it is ended, by pid, whatever came.

    Segments that it maps are removed: vLLM's outlive a party that is killed.
    """
    command = [sys.executable, str(_HUNG), *words, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stack:
        try:
            line = stack.stdout.readline() if stack.stdout else ""
            assert line, "the stack did not come to its hang"
            culprit = line.strip()
            yield stack.pid, None if culprit == "None" else int(culprit)
        finally:
            pids = [process.pid for process in tree(stack.pid)]
            segments = [Path("/dev/shm", region.name) for region in shared(pids)]
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for segment in segments:
                segment.unlink(missing_ok=True)


def _looked(pid: int, culprit: int | None, told: str) -> Picture:
    """The first look at which everybody stands where they hang."""
    ends = time.monotonic() + _WITHIN
    while True:
        picture = look(pid)
        blamed = [c for c in picture.culprits if told in c.sentence]
        if blamed and blamed[0] == picture.culprits[0] and blamed[0].pid == culprit:
            return picture
        assert time.monotonic() < ends, picture.culprits


def test_an_idle_pool_is_all_clear(tmp_path: Path) -> None:
    with _hanging("refengine", "pool", "idle", folder=tmp_path) as (pid, _):
        picture = look(pid)
    assert (picture.culprits, picture.unsure) == ((), ())
    assert picture.resting


@pytest.mark.parametrize(("target", "kind", "way", "told"), list(map(_by_way, _OURS + _VLLM)))
def test_the_one_to_blame_is_named_first(
    target: str, kind: str, way: str, told: str, tmp_path: Path
) -> None:
    with _hanging(target, kind, way, folder=tmp_path) as (pid, culprit):
        picture = _looked(pid, culprit, told)
        stopped = {process.pid for process in tree(pid) if process.stopped}
        assert stopped == ({culprit} if way == "stopped" else set()), "a look stopped somebody"
        assert pid in {process.pid for process in picture.processes}
