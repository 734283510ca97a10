"""A zygote ends with its runner, however that ends, and takes the plays' folder with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from killpoint.history.log import Log
from killpoint.runner.processes.zygote_client import Zygote

_DIRECTOR = """
import signal
from killpoint.runner.stage import Stage
stage = Stage("refengine")
print(stage.root, stage.zygote.pid, flush=True)
signal.pause()
"""


def test_nothing_is_left_when_the_director_is_killed() -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", _DIRECTOR],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert runner.stdout is not None
    with runner.stdout as said:
        root, zygote = said.readline().split()
    assert Path(root).is_dir()
    segment = Path(f"/dev/shm/killpoint-test-{runner.pid}")
    segment.touch()
    (play := Path(root) / "1").mkdir()
    log = Log(play / "writer.jsonl", "writer")
    log.write("segment", act="create", name=segment.name)
    log.close()
    watched = os.pidfd_open(int(zygote))
    try:
        runner.send_signal(signal.SIGKILL)
        runner.wait(10)
        assert select.select([watched], [], [], 20)[0], "the zygote outlived its runner by 20 s"
    finally:
        os.close(watched)
    assert not Path(root).exists()
    assert not segment.exists()


class _Late(BaseException):
    """What a test's timeout raises, wherever it waits."""


def _late(_number: int, _frame: object) -> None:
    raise _Late


def test_nothing_is_left_of_a_start_that_was_broken_off(
    tmp_path: Path, leftovers: Callable[[], set[str]]
) -> None:
    before = signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, 0.1)  # a start takes longer
    try:
        with pytest.raises(_Late):
            Zygote("refengine", tmp_path)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert leftovers() == set()
