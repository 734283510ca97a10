"""Every cell of the kill matrix has a story: a file that strikes whom, and where, the cell says."""

from __future__ import annotations

import pytest

from killpoint.runner.stage import Stage
from killpoint.scenario import Fault, Scenario, dump, parse
from killpoint.systems.pool.cases.kill_matrix import CASES
from killpoint.systems.pool.cases.kill_matrix_cells import Struck, needs_line
from killpoint.systems.pool.kill_matrix import JUDGED_BY, MATRIX, Cell

PLAYED = [cell for cell, expected in MATRIX.items() if expected.ending != "not-applicable"]
_HARMS = {"raise": ("raise", "interrupt")}


def _story(cell: Cell, rank: int = 1) -> Scenario:
    return Struck(cell, rank, line=4).scenario(f"{JUDGED_BY[MATRIX[cell].ending]}/x")


@pytest.mark.parametrize("cell", PLAYED, ids=Cell.name)
def test_a_cell_is_a_scenario_file_that_expects_its_ending(cell: Cell) -> None:
    story = _story(cell)
    assert parse(dump(story), "x") == story
    assert story.expects == MATRIX[cell].ending
    faults = [step for step in story.steps if isinstance(step, Fault)]
    harms = [f for f in faults if f.fault in _HARMS.get(cell.harm, (cell.harm,))]
    victim = "executor" if cell.victim == "executor" else "worker-1"
    assert [fault.role for fault in harms] == [victim]


@pytest.mark.parametrize("cell", PLAYED, ids=Cell.name)
def test_what_strikes_the_executor_finds_a_worker_standing_in_the_phase(cell: Cell) -> None:
    held = [s for s in _story(cell).steps if isinstance(s, Fault) and s.fault == "hold"]
    if cell.victim == "executor" and cell.phase != "idle":
        assert [fault.role for fault in held] == ["worker-1"]
        assert held[0].at is not None
    elif cell.phase != "grace":
        assert held == []


def test_lines_are_asked_for_where_a_phase_has_no_name() -> None:
    for cell in PLAYED:
        story = _story(cell)
        lined = any(isinstance(s, Fault) and s.at and s.at.line is not None for s in story.steps)
        assert lined == needs_line(cell)


def test_every_cell_that_can_be_played_is_some_cases() -> None:
    judged = {case.invariant for case in CASES}
    assert {JUDGED_BY[MATRIX[cell].ending] for cell in PLAYED} <= judged


def test_a_worker_that_is_stopped_in_its_grace_stays_until_it_is_killed() -> None:
    with Stage("refengine") as stage:
        history = stage.play(_story(Cell("worker", "grace", "stop"), rank=0)).history
    (fault,) = [e for e in history.of("fault") if e.text("fault") == "stop"]
    (gone,) = [e for e in history.of("gone") if e.text("target") == "worker-0"]
    assert gone.t > fault.t
    assert gone.number("signal", 0) == 9
    assert not any(history.of("leaving", role="worker-0"))
