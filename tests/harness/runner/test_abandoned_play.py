"""A play that is abandoned ends at once, with all that it started, and no other one begins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from below import are_there, once_one_is_stopped

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


def test_it_ends_with_its_roles_and_the_next_one_does_not_begin() -> None:
    with Stage("refengine") as stage, ThreadPoolExecutor(1) as pool:
        play = pool.submit(stage.play, STOPPED)
        roles = once_one_is_stopped(stage.zygote.loaded.pid)
        stage.abandon()
        with pytest.raises(KeyboardInterrupt):
            play.result(timeout=15.0)  # it would go on for half a minute
        assert len(roles) == 2
        assert are_there(roles) == []
        with pytest.raises(KeyboardInterrupt):
            pool.submit(stage.play, STOPPED).result(timeout=15.0)
