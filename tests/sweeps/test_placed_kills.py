"""Deaths inside operations of random roles, 500 with ``--full``: survivors lose nothing."""

from __future__ import annotations

import pytest

from killpoint.cases.deaths import PLACES, around_death, may_miss
from killpoint.explore.kills import count_lines
from killpoint.explore.trial import Trial
from killpoint.plugin import Referee
from killpoint.scenario import Fault, Point

_EACH = 100
_CHUNKS = [0, *(pytest.param(chunk, marks=pytest.mark.full) for chunk in range(1, 5))]
"""Beside the cases' own sweeps of these operations one chunk tells little more, five a little."""


@pytest.mark.parametrize("chunk", _CHUNKS)
def test_nothing_hangs_tears_or_stays_after_a_death(chunk: int, referee: Referee) -> None:
    trials: dict[str, Trial] = {}
    counts: dict[tuple[str, str, int], int] = {}
    stage = referee.stage()
    for role, id in (("writer", "Q6/placed-kills"), ("reader-0", "Q7/placed-kills")):
        trials[role] = Trial(id, stage, seed=chunk, full=False, folder=referee.folder())
    random = trials["writer"].random
    for _ in range(_EACH):
        role = random.choice(list(PLACES))
        trial = trials[role]
        op, nth = random.choice(PLACES[role])
        around = around_death(trial.outcome.id, role)
        place = (role, op, nth)
        if place not in counts:
            counts[place] = count_lines(trial, role, Point(op, nth=nth), around)
        assert counts[place] > 0, f"no line of {op} was counted"
        at = Point(op, line=random.randrange(counts[place]), nth=nth)
        trial.play(around(Fault("kill", role, at)), may_miss=may_miss(at, counts[place]))
    for trial in trials.values():
        referee.report(trial.conclude())
        assert trial.leaks == []
    struck = sum(trial.outcome.struck or 0 for trial in trials.values())
    print(f"{struck} of {_EACH} kills struck inside an operation")
    assert struck >= 0.95 * _EACH
