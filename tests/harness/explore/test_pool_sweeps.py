"""Sweeps of a pool's operations: a story for each fault in each of them."""

from __future__ import annotations

import pytest

from killpoint.explore.operations import Operation
from killpoint.explore.pool_sweeps import EXECUTOR, POOL, around, ending
from killpoint.pool_matrix import MEANING
from killpoint.scenario import Fault, FaultName, NextPool, Point, PoolStop, dump, parse


@pytest.mark.parametrize("fault", ["stop", "kill", "raise"])
@pytest.mark.parametrize("operation", POOL, ids=lambda operation: operation.name)
def test_a_story_is_a_file_that_expects_an_ending(operation: Operation, fault: FaultName) -> None:
    placed = Fault(fault, operation.role, Point(operation.verb, line=3))
    story = around(operation, "W3/x", placed)
    assert parse(dump(story), "x") == story
    assert placed in story.steps
    assert story.expects == ending(operation, fault)
    assert story.expects in MEANING
    on = Fault("continue", operation.role)
    assert (on in story.steps) == (fault == "stop")


def test_a_start_that_is_cut_short_is_followed_by_another_and_a_shutdown_by_itself() -> None:
    start, stop = EXECUTOR[0], EXECUTOR[-1]
    again = around(start, "W10/x", Fault("raise", "executor", Point("pool-start", line=1)))
    assert any(isinstance(step, NextPool) for step in again.steps)
    twice = around(stop, "W5/x", Fault("raise", "executor", Point("stop", line=1)))
    assert sum(isinstance(step, PoolStop) for step in twice.steps) == 2
