"""Races: a scenario played several times, and how often it was violated."""

from __future__ import annotations

import time

import msgspec

from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun
from killpoint.systems.registry import own_player_of
from killpoint.verdict import Rate

_PLAYS = 3
_FULL = 10
"""Times as many under ``--full``."""
REPLAYED = 60
"""Plays that a replay has at most to show again what one of a few showed."""
_AGAIN = 3
_AGAIN_FOR = 15.0
"""Plays that show how often the smallest program violates, and the seconds for them: one at least,
and of the others those that end within these."""


def race(case_run: CaseRun, scenario: Scenario, of: str, plays: int | None = None) -> None:
    """Play a scenario whose outcome its target's threads decide among themselves.

    Args:
        of: what the plays are, such as ``plays with 2 senders and 1 receiver at a time``.
        plays: how many; None: as many as plays that last a second or two.

    Raises:
        Violated: it has been violated often enough.
        Unsupported: the target said that it cannot do it.
    """
    scenario = msgspec.structs.replace(scenario, plays=plays or REPLAYED)
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


def told_by_chance(case_run: CaseRun, took: float) -> None:
    """Play what convicts a few times more; if not each play shows it, say how many do.

    Shrinking has played most candidates once, so it ends in one that violated by chance as well as
    in one that always does. The replay of the former is played until it shows. A violation of a
    whole server is confirmed by other means.

    Args:
        took: seconds of a play that violated.
    """
    convicted = case_run.convicted
    if convicted is None or own_player_of(convicted) is not None:
        return
    end = time.monotonic() + _AGAIN_FOR
    shown = [case_run.shows_again(convicted)]
    while len(shown) < _AGAIN and time.monotonic() + took < end:
        shown.append(case_run.shows_again(convicted))
    if not all(shown):
        case_run.played_until_it_shows(REPLAYED)
        of = "more plays of the smallest program found"
        case_run.rate(Rate("the promise was broken", of, sum(shown), len(shown)))
