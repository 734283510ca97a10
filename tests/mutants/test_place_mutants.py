"""Sweeps over stores and native calls find who dies, or is stopped, at the wrong one."""

from __future__ import annotations

import pytest

from killpoint.cases import select
from killpoint.explore.trial import Trial
from killpoint.stage.stage import Stage


@pytest.mark.parametrize(
    ("mutant", "case", "kinds"),
    [
        ("q6_death_is_not_told", "Q6/writer-killed-at-stores", {"hang"}),
        ("q6_death_is_not_told", "Q6/writer-killed-inside-native-send", {"hang"}),
        ("q7_dead_reader_is_waited_for", "Q7/reader-killed-at-stores", {"hang"}),
        ("r2_published_before_filled", "R3/stopped-at-stores", {"wrong-data", "lost"}),
    ],
)
def test_a_mutant_is_caught_at_its_places(mutant: str, case: str, kinds: set[str]) -> None:
    (found,) = select([case])
    with Stage(f"mutated:{mutant}") as stage:
        trial = Trial(case, stage, seed=0, full=False, folder=None)
        outcome = trial.judge(found.run)
    if outcome.by_machine:
        pytest.skip(outcome.cause)
    assert outcome.outcome == "violated", outcome
    assert outcome.kind in kinds, outcome.cause
