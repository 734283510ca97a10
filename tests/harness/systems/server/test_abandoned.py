"""A play of a server that is abandoned ends with all that it started, and no other one begins."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from below import are_there, once_one_is_stopped

from killpoint.inspection.processes import tree
from killpoint.runner import play_lock
from killpoint.runner.stage import Stage
from killpoint.scenario import Fault, Scenario
from killpoint.systems.server.steps import (
    ServerContinueLoad,
    ServerControl,
    ServerLoad,
    ServerPhase,
    ServerShape,
    ServerStart,
)
from killpoint.targets.registry import resolve

EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_server.toml"
UP = [ServerStart(), ServerControl(), ServerLoad(), ServerPhase("decode")]
STOPPED = Scenario(
    "E4/worker-stopped",
    ["E4"],
    [*UP, Fault("stop", "worker-0"), ServerContinueLoad(45.0)],
    server=ServerShape("tensor-parallel"),
)


def test_it_ends_with_what_it_started_and_the_next_one_does_not_begin() -> None:
    with Stage(resolve(f"serve:{EXAMPLE}")) as stage, ThreadPoolExecutor(1) as pool:
        before = {each.pid for each in tree(os.getpid())}
        play = pool.submit(stage.play, STOPPED)
        parts = once_one_is_stopped(os.getpid())
        stage.abandon()
        with pytest.raises(asyncio.CancelledError):
            play.result(timeout=30.0)
        assert are_there([pid for pid in parts if pid not in before]) == []
        with pytest.raises(KeyboardInterrupt):
            pool.submit(stage.play, STOPPED).result(timeout=30.0)


def test_one_that_waits_for_the_end_of_another_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play_lock, "_folder", lambda: tmp_path)
    waits = threading.Event()
    with (
        play_lock.one_server(),
        Stage(resolve(f"serve:{EXAMPLE}")) as stage,
        ThreadPoolExecutor(1) as pool,
    ):
        looked = play_lock._locked  # pyright: ignore[reportPrivateUsage] # seen through, not replaced

        def seen(fd: int, how: int, end: float, go_on: Callable[[], object]) -> bool:
            waits.set()
            return looked(fd, how, end, go_on)

        monkeypatch.setattr(play_lock, "_locked", seen)
        play = pool.submit(stage.play, STOPPED)
        assert waits.wait(10.0)
        stage.abandon()
        with pytest.raises(KeyboardInterrupt):
            play.result(timeout=10.0)


def test_an_interrupted_check_does_not_wait_for_its_end(tmp_path: Path) -> None:
    check = subprocess.Popen(
        [
            *[sys.executable, "-m", "killpoint.cli", "check", "--target", f"serve:{EXAMPLE}"],
            *["--only", "E4/worker-stopped", "--out", str(tmp_path)],
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        parts = once_one_is_stopped(check.pid)
        check.send_signal(signal.SIGINT)
        said = check.communicate(timeout=20.0)[1]  # the play goes on for 25 s
    finally:
        check.kill()
        check.wait()
    assert check.returncode == 130, said
    assert are_there(parts) == []
