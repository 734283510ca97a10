"""Races: a scenario played several times, and how often it was violated."""

from __future__ import annotations

import msgspec

from killpoint.explore.trial import Trial
from killpoint.scenario import Scenario
from killpoint.verdict import Rate

_PLAYS = 3
_FULL = 10
"""Times as many under ``--full``."""
_REPLAYED = 60
"""Plays that a replay has at most to show again what one of a few showed."""


def race(trial: Trial, scenario: Scenario, of: str, plays: int | None = None) -> None:
    """Play a scenario whose outcome its target's threads decide among themselves.

    Args:
        of: what the plays are, such as ``plays with 2 senders and 1 receiver at a time``.
        plays: how many; None: as many as plays that last a second or two.

    Raises:
        Violated: it has been violated often enough.
        Unsupported: the target said that it cannot do it.
    """
    scenario = msgspec.structs.replace(scenario, plays=plays or _REPLAYED)
    runs = trial.outcome.runs
    try:
        many = plays or _PLAYS * (_FULL if trial.full else 1)
        for _ in trial.over(range(many)):
            trial.play(scenario)
    finally:
        judged = trial.outcome.runs - runs
        hits = sum(violation.plays for violation in trial.outcome.violations)
        if judged:
            trial.rate(Rate("the promise was broken", of, hits, judged))
