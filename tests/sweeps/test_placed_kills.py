"""Deaths inside operations of random roles, 500 with ``--full``: survivors lose nothing."""

from __future__ import annotations

import pytest

from killpoint.plugin import Referee
from killpoint.scenario import Fault, Point
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import count_lines
from killpoint.systems.queue.cases.deaths import PLACES, around_death, may_miss

_EACH = 40
_CHUNKS = [0, *(pytest.param(chunk, marks=pytest.mark.full) for chunk in range(1, 5))]
"""Beside the cases' own sweeps of these operations one chunk tells little more, five a little."""


@pytest.mark.parametrize("chunk", _CHUNKS)
def test_nothing_hangs_tears_or_stays_after_a_death(chunk: int, referee: Referee) -> None:
    trials: dict[str, CaseRun] = {}
    counts: dict[tuple[str, str, int], int] = {}
    stage = referee.stage()
    for role, id in (("writer", "Q6/placed-kills"), ("reader-0", "Q7/placed-kills")):
        trials[role] = CaseRun(id, stage, seed=chunk, full=False, folder=referee.folder())
    random = trials["writer"].random
    for _ in range(_EACH):
        role = random.choice(list(PLACES))
        case_run = trials[role]
        op, nth = random.choice(PLACES[role])
        around = around_death(case_run.outcome.id, role)
        place = (role, op, nth)
        if place not in counts:
            counts[place] = count_lines(case_run, role, Point(op, nth=nth), around)
        assert counts[place] > 0, f"no line of {op} was counted"
        at = Point(op, line=random.randrange(counts[place]), nth=nth)
        case_run.play(around(Fault("kill", role, at)), may_miss=may_miss(at, counts[place]))
    for case_run in trials.values():
        referee.report(case_run.conclude())
        assert case_run.leaks == []
    struck = sum(case_run.outcome.struck or 0 for case_run in trials.values())
    print(f"{struck} of {_EACH} kills struck inside an operation")
    assert struck >= 0.95 * _EACH
