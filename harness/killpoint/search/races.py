"""Races: a scenario played several times, and how often it was violated."""

from __future__ import annotations

import msgspec

from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun
from killpoint.verdict import Rate

_PLAYS = 3
_FULL = 10
"""Times as many under ``--full``."""
_REPLAYED = 60
"""Plays that a replay has at most to show again what one of a few showed."""


def race(case_run: CaseRun, scenario: Scenario, of: str, plays: int | None = None) -> None:
    """Play a scenario whose outcome its target's threads decide among themselves.

    Args:
        of: what the plays are, such as ``plays with 2 senders and 1 receiver at a time``.
        plays: how many; None: as many as plays that last a second or two.

    Raises:
        Violated: it has been violated often enough.
        Unsupported: the target said that it cannot do it.
    """
    scenario = msgspec.structs.replace(scenario, plays=plays or _REPLAYED)
    runs = case_run.outcome.runs
    try:
        many = plays or _PLAYS * (_FULL if case_run.full else 1)
        for _ in case_run.with_progress(range(many)):
            case_run.play(scenario)
    finally:
        judged = case_run.outcome.runs - runs
        hits = sum(violation.plays for violation in case_run.outcome.violations)
        if judged:
            case_run.rate(Rate("the promise was broken", of, hits, judged))
