"""A play that is abandoned ends at once, with all that it started, and no other one begins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from killpoint.inspection.processes import tree
from killpoint.runner.stage import Stage
from killpoint.scenario import (
    Attach,
    Fault,
    Make,
    Message,
    Pause,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.targets.shapes import QueueShape

MUTANTS = Path(__file__).parents[2] / "mutants"
STOPPED = Scenario(
    "Q7/x",
    ["R3"],
    [
        *(Make(), Attach(), Ready(timeout=9.0), Send([Message()]), Wait()),
        *(Fault("stop", "writer"), Receive(2), Pause(30.0), Wait(within=60.0)),
    ],
    shape=QueueShape(readers=1),
)


def _once_one_is_stopped(root: int) -> list[int]:
    """The processes below this one, when one of them has been stopped."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        below = [each for each in tree(root) if each.pid != root]
        if any(each.state == "T" for each in below):
            return [each.pid for each in below]
        time.sleep(0.05)
    raise AssertionError("no role was stopped within 60 s")


def _are_there(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_it_ends_with_its_roles_and_the_next_one_does_not_begin() -> None:
    with Stage("refengine") as stage, ThreadPoolExecutor(1) as pool:
        zygote = stage.zygote.loaded.pid
        play = pool.submit(stage.play, STOPPED)
        roles = [pid for pid in _once_one_is_stopped(os.getpid()) if pid != zygote]
        stage.abandon()
        with pytest.raises(KeyboardInterrupt):
            play.result(timeout=15.0)  # it would go on for half a minute
        assert len(roles) == 2
        assert _are_there(roles) == []
        with pytest.raises(KeyboardInterrupt):
            pool.submit(stage.play, STOPPED).result(timeout=15.0)


@pytest.mark.full
def test_sigterm_ends_a_check_while_it_shrinks(tmp_path: Path) -> None:
    """The plays by which it shrinks are hangs of many seconds."""
    check = subprocess.Popen(
        [
            *[sys.executable, "-m", "killpoint.cli", "check", "--out", str(tmp_path)],
            *["--target", "mutated:q7_dead_reader_is_waited_for", "--shrink", "300"],
            *["--only", "Q7/reader-killed-at-stores"],
        ],
        env=os.environ | {"PYTHONPATH": str(MUTANTS)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        assert check.stderr is not None
        said = next((line for line in check.stderr if "✗ Q7" in line), "")
        parts = [each.pid for each in tree(check.pid)]
        check.send_signal(signal.SIGTERM)
        said += check.communicate(timeout=20.0)[1]
    finally:
        check.kill()
        check.wait()
    assert check.returncode == 143, said
    assert "✗ Q7" in said
    assert _are_there(parts) == []
