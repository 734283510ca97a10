"""Publications: changes are heard soon at any message rate (C7), whatever the clock does (C5)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.coordinator.record import (
    Change,
    changes,
    ms,
    publications,
    spans,
    there,
    times,
)
from killpoint.verdict import Violation

_WAITS = 4
"""Waits on a change's way: of the engine, of the coordinator for it and for its time to publish, of
the front end. Each may be as late as the latest control."""
_LEAST = 0.25
"""Seconds that a publication may take in any case (C7)."""


def check_c7_publication(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """C7: a change is heard within max(2 intervals, 250 ms), however many messages there are."""
    interval, _ = times(history)
    found, heard = unheard(scenario, history, max(2 * interval, _LEAST))
    found = found or hangs(history)
    poured = sum(event.number("count", 0) for event in history.of("flooded"))
    if not found and not heard:
        raise Inconclusive("no engine told a change")
    return Finding(found[:1], {"changes": heard, "messages in floods": poured})


def check_c5_clock(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """C5: no publication comes more than an interval later for a jump of the clock."""
    interval, idle = times(history)
    jumps = list(history.of("jumped"))
    asked = [e for e in history.of("fault") if e.text("fault") == "jump-clock"]
    if not jumps or len(jumps) < len(asked):
        raise Inconclusive("the coordinator's clock did not jump")
    found, heard = unheard(scenario, history, max(2 * interval, _LEAST) + interval)
    found = found or _paused(scenario, history, idle + interval, jumps[0]) or hangs(history)
    after = [change for change in changes(history) if change.since > jumps[0].t]
    if not found and not after:
        raise Inconclusive("no engine told a change after the jump")
    return Finding(found[:1], {"changes": heard, "jumps": len(jumps)})


def unheard(scenario: Scenario, history: History, within: float) -> tuple[list[Violation], int]:
    """Return a violation for a change not heard in time, and the number of those heard in time.

    A change counts as heard with a later one of its rank. A front end that was not connected, or
    that had no coordinator, need not have heard of it.
    """
    gone = spans(history)
    told = changes(history)
    heard = 0
    for change in told:
        later = [c for c in told if c.rank == change.rank and c.since >= change.since]
        for front in scenario.front_ends():
            late = _WAITS * history.lateness(change.since, change.since + ms(within))
            due = max(change.event.t, change.since) + ms(within) + late
            first = next(_hearings(history, front, later), None)
            if first is None or first.t > due:
                present = all(
                    there(history, role, change.since, due, gone)
                    for role in (front, change.event.role)
                )
                if not present or _nobody(history, change.since, due):
                    continue
                return [_starved(history, change, front, first, within)], heard
            heard += 1
    return [], heard


def _hearings(history: History, front: str, told: list[Change]) -> Iterator[Event]:
    """Yield the publications in which a front end heard of one of these changes of one rank."""
    for publication in publications(history, front):
        t, counts = publication.event.t, publication.of(told[0].rank)
        if any(change.since <= t and change.counts == counts for change in told):
            yield publication.event


def _nobody(history: History, since: int, until: int) -> bool:
    """Return whether the coordinator was gone at some time in between."""
    away = [
        e
        for e in history.of("fault")
        if e.text("target") in ("coordinator", "parent")
        and e.text("fault") in ("kill", "stop", "sigterm", "sigint", "exit")
    ]
    back = list(history.of("coordinator-started"))
    back += [e for e in history.of("fault") if e.text("fault") == "continue"]
    for event in away:
        end = min((e.t for e in back if e.t > event.t), default=until)
        if event.t <= until and end >= since:
            return True
    return any(since <= e.t <= until for e in history.of("coordinator-close"))


def _starved(
    history: History, change: Change, front: str, first: Event | None, within: float
) -> Violation:
    what = f"{front} heard of {change.words()}"
    lines = [change.event, *([first] if first else [])]
    around = [e for e in history.of("flood", "flooded", "jumped") if e.t <= lines[-1].t]
    shown = evidence(history, sorted({id(e): e for e in [*around, *lines]}.values(), key=_time))
    if first is None:
        return Violation("starved", f"{front} never heard of {change.words()}", shown)
    took = (first.t - change.since) / 1e9
    cause = f"{what} only after {took:.2f} s; {within:.2f} s are allowed"
    return Violation("starved", cause, shown)


def _time(event: Event) -> int:
    return event.t


def _paused(scenario: Scenario, history: History, within: float, jump: Event) -> list[Violation]:
    """Two publications that lay too far apart after a jump of the clock, or the end of the play."""
    closed = history.first("coordinator-close")
    for front in scenario.front_ends():
        heard = [p.event for p in publications(history, front)]
        left = next((e for e in history.of("unlinked", role=front)), None)
        ends = sorted(e.t for e in (closed, left) if e is not None)[:1]
        beats = [*(e.t for e in heard if all(e.t < end for end in ends)), *ends]
        for before, after in itertools.pairwise(beats):
            late = history.allowance(before, after)
            if after > jump.t and after - before > ms(within + _LEAST) + late:
                took = (after - before) / 1e9
                cause = f"{front} heard nothing for {took:.2f} s around a jump of the clock by"
                cause += f" {jump.data.get('s')} s; {within:.2f} s are allowed"
                return [Violation("starved", cause, evidence(history, [*heard[-3:], jump]))]
    return []
