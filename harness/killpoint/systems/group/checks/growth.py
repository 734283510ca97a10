"""Growth of a group: its ranks' memory and its store's entries do not follow the objects (G2)."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, median

from killpoint.checkers.finding import Finding, Inconclusive, evidence
from killpoint.checkers.slope import LEAST, Slope, slope
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.group.checks.delivery import undisturbed
from killpoint.verdict import Violation, counted

_FLAT = 0.25
"""The part of what passed that the whole interval of a growth lies above."""
_KEPT = 0.5
"""The part of the passed bytes that, kept, is growth: a leaked object is kept whole, and more."""
_ENTRY = 64
"""Bytes that keeping an object costs beside its own, at the least."""
_WARM_UP = 5
"""One window in so many is not judged: arenas and tables fill in it."""
_LEAST_ENTRIES = 5
"""Counts of a store's entries below which they say nothing."""
_FEW = 20
"""A store may gain one entry in so many calls: what it opens once for each pair, say."""


def check_g2_memory(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """G2: neither the ranks' memory nor the store's entries follow the number of objects."""
    found = undisturbed(scenario, history)
    windows = 0
    doubt = ""
    for role in scenario.roles():
        weights = [e for e in history.of("weight") if e.text("target") == role]
        weights = weights[len(weights) // _WARM_UP :]
        if len(weights) < LEAST:
            doubt = doubt or f"{role} was weighed {counted(len(weights), 'times')} of {LEAST}"
            continue
        windows += len(weights) - 1
        passed = [_passed(history, weights[0], each) for each in weights]
        if not passed[-1]:
            doubt = doubt or f"nothing passed while {role} was weighed"
            continue
        grown = slope(passed, [each.number("private", 0) for each in weights])
        if grown.low > _FLAT and grown.at >= _KEPT:
            found = found or [_grows(history, role, grown, passed[-1], weights)]
        elif grown.high >= _KEPT:
            doubt = doubt or f"{role} grew by {_words(grown)}: neither flat nor growth"
    found = found or _entries(history)
    if not found and doubt:
        raise Inconclusive(doubt)
    return Finding(found[:1], {"windows": windows})


def steady_gain(values: list[int]) -> float:
    """Return the average gain of a window, without the window that gained most.

    An allocation that is kept once (a buffer, an arena, a table that doubles) is one step. A leak
    is many.
    """
    gains = sorted(later - earlier for earlier, later in pairwise(values))
    return mean(gains[:-1])


def _passed(history: History, since: Event, until: Event) -> int:
    """Bytes of the objects that were sent between two weighings, in one step or in many."""
    begun = [e for e in history.of(*_SENDING) if since.t < e.t <= until.t and "digest" in e.data]
    return sum(event.number("size", 0) + _ENTRY for event in begun)


_SENDING = ("send-to", "broadcast", "gather")


def _words(grown: Slope) -> str:
    rate = f"{grown.at:.2f} bytes for each byte of objects that passed and were received"
    return f"{rate} (99 in 100: {grown.low:.2f} … {grown.high:.2f})"


def _grows(
    history: History, role: str, grown: Slope, passed: int, weights: list[Event]
) -> Violation:
    cause = (
        f"{role}'s private memory grew by {_words(grown)}, over {passed / 1024:.0f} KiB in"
        f" {len(weights) - 1} windows"
    )
    seen = [weights[at] for at in (0, len(weights) // 2, -1)]
    return Violation("growth", cause, evidence(history, seen))


def _entries(history: History) -> list[Violation]:
    """Return a violation if the store's own count of entries grows.

    The count is taken, where the target reports it, each time all ranks had just met.
    """
    told = list(history.of("entries"))
    if len(told) <= _LEAST_ENTRIES:
        return []
    told = told[1:]  # what the warm-up opened may stay
    calls = [
        sum(told[index].t < event.t <= told[index + 1].t for event in history.of("barrier-done"))
        + sum(told[index].t < event.t <= told[index + 1].t for event in history.of(*_SENDING))
        for index in range(len(told) - 1)
    ]
    gain = steady_gain([event.number("count") for event in told])
    if gain * _FEW <= median(calls):
        return []
    cause = (
        f"the store gains {gain:.0f} entries in each window of {median(calls):.0f} calls, though"
        " everything sent was received"
    )
    return [Violation("growth", cause, evidence(history, told))]
