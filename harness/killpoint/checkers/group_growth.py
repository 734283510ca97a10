"""Whether a group keeps what it has delivered: its ranks' weight and its store's entries (G2)."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, median

from killpoint.checkers.finding import Finding, Inconclusive, evidence
from killpoint.checkers.group import undisturbed
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.verdict import Violation

LEAST = 5
"""Busy windows below which a gain says nothing."""
_KEPT = 0.5
"""The part of what passed that, kept, is growth: who keeps an object keeps it whole, and more."""
_ENTRY = 64
"""Bytes that keeping an object costs beside its own, at the least."""
_FEW = 20
"""A store may gain one entry in so many calls: what it opens once for each pair, say."""


def flat(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """G2: neither the ranks' memory nor the store's entries follow the number of objects."""
    found = undisturbed(scenario, history)
    windows = 0
    doubt = ""
    for role in scenario.roles():
        weights = [e for e in history.of("weight") if e.text("target") == role]
        busy = [pair for pair in pairwise(weights) if _passed(history, *pair)[0]]
        idle = [pair for pair in pairwise(weights) if not _passed(history, *pair)[0]]
        if len(busy) < LEAST or not idle:
            doubt = doubt or f"{role} was weighed over {len(busy)} busy windows of {LEAST}"
            continue
        windows += len(busy)
        noise = max(abs(_gain(pair)) for pair in idle)
        passed = median(_passed(history, *pair)[1] for pair in busy)
        if noise > passed * _KEPT:
            doubt = f"{role} gained {noise} bytes while idle: too uneven to be judged"
        gain = steady_gain([_weight(busy[0][0]), *(_weight(pair[1]) for pair in busy)])
        if not found and gain > passed * _KEPT + noise:
            found = [_grows(history, role, gain, passed, noise, [pair[1] for pair in busy])]
    found = found or _entries(history)
    if not found and doubt:
        raise Inconclusive(doubt)
    return Finding(found[:1], {"windows": windows})


def steady_gain(values: list[int]) -> float:
    """How much a window gains on average, the one that gained most left out.

    What is kept once (a buffer, an arena, a table that doubles) is one step. A leak is many.
    """
    gains = sorted(later - earlier for earlier, later in pairwise(values))
    return mean(gains[:-1])


def _weight(event: Event) -> int:
    return event.number("rss", 0)


def _gain(pair: tuple[Event, Event]) -> int:
    return _weight(pair[1]) - _weight(pair[0])


def _passed(history: History, since: Event, until: Event) -> tuple[int, int]:
    """Calls that were begun between two weighings, and the bytes of the objects sent in them."""
    begun = [e for e in history.of(*_SENDING, "barrier") if since.t < e.t <= until.t]
    objects = [event for event in begun if "digest" in event.data]
    return len(begun), sum(event.number("size", 0) + _ENTRY for event in objects)


_SENDING = ("send-to", "broadcast", "gather")


def _grows(
    history: History, role: str, gain: float, passed: float, noise: int, weights: list[Event]
) -> Violation:
    cause = (
        f"{role} gains {gain / 1024:.0f} KiB in each window in which objects of"
        f" {passed / 1024:.0f} KiB pass and are received; {noise / 1024:.0f} KiB at most while idle"
    )
    return Violation("growth", cause, evidence(history, weights))


def _entries(history: History) -> list[Violation]:
    """The store's own count, where the target tells it, taken each time all had just met."""
    told = list(history.of("entries"))
    if len(told) <= LEAST:
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
