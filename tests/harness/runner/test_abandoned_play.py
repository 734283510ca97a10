"""A play that is abandoned ends at once, with all that it started, and no other one begins."""

from __future__ import annotations

import os
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
