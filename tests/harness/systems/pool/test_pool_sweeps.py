"""Sweeps of a pool's operations: a story for each fault in each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import Tape

from killpoint.ledger import Ledger
from killpoint.scenario import (
    Count,
    Fault,
    FaultName,
    NextPool,
    Point,
    PoolStop,
    Scenario,
    dump,
    parse,
)
from killpoint.search.case_run import CaseRun, Play
from killpoint.search.operations import Operation
from killpoint.systems.pool.kill_matrix import MEANING
from killpoint.systems.pool.sweeps import EXECUTOR, POOL, WORKER, around, ending, sweep_pool


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


class Missing:
    """A player whose calls have lines, to none of which a struck call comes."""

    def play(self, scenario: Scenario) -> Play:
        tape = Tape()
        for step in scenario.steps:
            if isinstance(step, Count):
                tape.tell(step.role, "lines", op=step.at.op, count=400)
        return Play(scenario, tape.history(), Ledger(), ["a line"], "", Path(), 0.0)

    def forget(self, play: Play) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize(("operations", "missed"), [(EXECUTOR[1:2], 0), (WORKER[1:2], 2)])
def test_a_line_of_a_call_that_waits_need_not_be_reached(
    operations: tuple[Operation, ...], missed: int
) -> None:
    case_run = CaseRun("W6/x", Missing(), seed=1, full=False, folder=None)
    sweep_pool(case_run, operations, 2, "stop")
    assert (case_run.outcome.struck, case_run.outcome.runs) == (0, missed)
    assert case_run.conclude().outcome == "inconclusive"
