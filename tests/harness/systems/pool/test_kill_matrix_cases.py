"""Cases of the kill matrix play every cell; what was left out they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from synthetic import Tape

from killpoint.ledger import Ledger
from killpoint.runner.stage import Play
from killpoint.scenario import Fault, Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.play_evidence import Unsupported
from killpoint.systems.pool.cases import kill_matrix
from killpoint.systems.pool.cases.kill_matrix import CASES, PARTS, cells_of, missing, parts, strike
from killpoint.systems.pool.kill_matrix import JUDGED_BY, MATRIX, Cell

INVARIANTS = sorted(set(JUDGED_BY.values()))
KILLED = Cell("worker", "computing", "kill")
ASKED = Cell("worker", "computing", "sigterm")
BY_THREAD = Cell("worker", "output-thread", "kill")
ENDED = Cell("executor", "idle", "kill")


def _played(scenario: Scenario, spared: str = "") -> Play:
    """A play in which every fault strikes, but those of one role."""
    tape = Tape()
    for step in scenario.steps:
        if isinstance(step, Fault) and step.role != spared:
            tape.tell("director", "fault", fault=step.fault, target=step.role)
    return Play(scenario, tape.history(), Ledger(), [], "", Path("/"), 0.0)


class Playing(CaseRun):
    """A trial that judges nothing; its target has no output thread."""

    def __init__(self, *, spared: str = "", full: bool = False) -> None:
        nobody: Any = None
        super().__init__("W3/matrix-x", nobody, seed=3, full=full, folder=None)
        self.spared = spared
        self.scenarios: list[Scenario] = []

    def play(self, scenario: Scenario, *, may_miss: bool = False) -> Play:
        assert scenario.pool is not None
        assert not may_miss
        if scenario.pool.output_thread:
            raise Unsupported("the target has no output thread")
        self.scenarios.append(scenario)
        self.outcome.runs += 1
        return _played(scenario, self.spared)

    def struck(self) -> list[str]:
        return [s.role for each in self.scenarios for s in each.steps if isinstance(s, Fault)]


def test_every_cell_is_played_by_one_case_where_pools_start_as_they_would() -> None:
    ids = {case.id for case in CASES}
    for invariant in INVARIANTS:
        own = [cell for cell, expected in MATRIX.items()
               if JUDGED_BY.get(expected.ending) == invariant]  # fmt: skip
        played = [cell for part in parts(invariant) for cell in cells_of(invariant, part)]
        assert sorted(played) == sorted(own)
        assert {f"{invariant}/matrix-{part}" for part in parts(invariant)} <= ids
    assert sorted(phase for own in PARTS.values() for phase in own) == sorted(
        {cell.phase for cell in MATRIX}
    )


def test_a_case_asks_for_its_own_cells_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[Cell]] = []
    monkeypatch.setattr(
        kill_matrix, "strike", lambda _trial, cells, _start: asked.append(list(cells))
    )
    case = next(case for case in CASES if case.id == "W3/matrix-answering")
    case.run(Playing())
    assert sorted(asked[0]) == sorted(cells_of("W3", "answering"))


def test_one_worker_is_struck_in_a_cell_and_under_full_each() -> None:
    case_run = Playing()
    strike(case_run, [KILLED] * 20 + [ENDED], "default")
    struck = case_run.struck()
    assert (len(struck), set(struck[:20])) == (21, {"worker-0", "worker-1"})
    assert case_run.outcome.counts == {"cells": 2}
    assert case_run.outcome.searched == ["one of two workers in each cell"]
    whole = Playing(full=True)
    strike(whole, [KILLED, ENDED], "default")
    assert whole.struck() == ["worker-0", "worker-1", "executor", "executor"]
    assert whole.outcome.searched == []


def test_a_harm_that_nobody_saw_is_a_doubt_however_many_others_struck() -> None:
    case_run = Playing(spared="worker-1", full=True)
    strike(case_run, [KILLED, ENDED], "default")
    concluded = case_run.conclude()
    assert concluded.outcome == "inconclusive"
    assert concluded.cause == "worker/computing/kill, rank 1: kill of worker-1 did not strike"


def test_what_is_released_needs_no_mark_of_its_own() -> None:
    held = Scenario("W3/x", ["W3"], [Fault("hold", "worker-0"), Fault("continue", "worker-0")])
    assert missing(_played(held)) == ""
    assert missing(_played(held, spared="worker-0")) == "hold of worker-0"


def test_a_cell_that_the_target_cannot_be_asked_is_named_and_the_others_are_played() -> None:
    case_run = Playing()
    strike(case_run, [BY_THREAD, KILLED], "default")
    assert case_run.outcome.counts == {"cells": 1}
    without = "without worker/output-thread/kill: the target has no output thread"
    assert without in case_run.outcome.searched
    with pytest.raises(Unsupported, match="no output thread"):
        strike(Playing(), [BY_THREAD], "default")


def test_a_case_that_takes_too_long_says_how_far_it_came() -> None:
    slow = Playing()
    strike(slow, cells_of("W3", "in-a-call"), "default", cap=0.0)
    assert len(slow.scenarios) == 4  # the least
    assert slow.outcome.counts == {"cells": 4}
    assert "4 of 16 cells in 0 s" in slow.outcome.searched
    whole = Playing(full=True)
    strike(whole, [KILLED, ASKED, ENDED], "default", cap=0.0)
    assert whole.outcome.counts == {"cells": 3}
    assert whole.outcome.searched == []
