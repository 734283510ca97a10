"""Lost parties are noticed (C6), and accepted requests are stepped all the same (C2)."""

from __future__ import annotations

from collections.abc import Callable

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.coordinator.checks.publication import unheard
from killpoint.systems.coordinator.record import (
    Publication,
    Span,
    ms,
    publications,
    rank_of,
    spans,
    there,
    times,
)
from killpoint.verdict import Violation

_NOTICED = 5.0
"""Seconds within which a loss or a return is noticed (C6)."""
_HEARD = 2.0
"""Seconds for counts to be heard while a party is gone: C7 is another clause."""
_CENTRE = ("parent", "coordinator")


def check_c2_requests_served(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """C2: every accepted request is stepped, within 5 s of it or of the last trouble."""
    times(history)
    found, stepped = _unstepped(scenario, history, spans(history))
    found = found or hangs(history)
    if not found and not stepped:
        raise Inconclusive("no request was accepted")
    return Finding(found[:1], {"requests": stepped})


def check_c6_deaths_noticed(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """C6: a loss is noticed within 5 s, and so is a return; no request is lost."""
    times(history)
    gone = spans(history)
    if not gone:
        raise Inconclusive("nobody was gone")
    found, told = list[Violation](), 0
    for span in gone:
        if span.role in _CENTRE:
            wrong, times_told = _centre(scenario, history, span, gone)
        elif span.role in scenario.engines():
            wrong, times_told = _engine(scenario, history, span, gone)
        else:  # nobody has to know of a front end
            wrong, times_told = [], 0
        found, told = found or wrong, told + times_told
    found = found or _unasked(history, gone)
    found = found or _unstepped(scenario, history, gone)[0]
    found = found or _unheard(scenario, history, gone) or hangs(history)
    return Finding(found[:1], {"noticed": told})


# -- an engine --------------------------------------------------------------------------------


def _engine(
    scenario: Scenario, history: History, span: Span, gone: list[Span]
) -> tuple[list[Violation], int]:
    rank = rank_of(history, span.role, span.begin.t)
    if rank is None:  # it had never come: only who waits for it can miss it
        return [], 0
    told = 0
    due = _due(history, span.begin.t)
    brief = span.end is not None and span.end.t < due
    for front in scenario.front_ends():
        first = _first(history, front, span.since, lambda p: p.lacks(rank))
        if first is None or first.t > due:
            first = None if first and _told_to_leave(history, span, first.t) else first
            if brief or not there(history, front, span.begin.t, due, gone):
                continue
            return [_late(history, span, f"{front} heard of {span.words()}", first)], told
        told += 1
    for engine in scenario.engines():
        wrong = _stuck(history, span, engine, rank, due)
        present = there(history, engine, span.begin.t, due, gone)
        if wrong and engine != span.role and present and not brief:
            return wrong, told
    return _back(scenario, history, span, rank, gone, told)


def _told_to_leave(history: History, span: Span, t: int) -> bool:
    """Return whether an engine was asked to leave by then, so that its loss proves nothing."""
    told = history.of("begin", role=span.role)
    return any(span.begin.t < e.t <= t and e.text("op") in ("disconnect", "exit") for e in told)


def _stuck(history: History, span: Span, engine: str, rank: int, due: int) -> list[Violation]:
    """Return a violation if an engine was left in a wave with an engine that is gone."""
    starts = [e for e in history.of("heard", role=engine) if e.text("what") == "start"]
    before = [e for e in starts if e.t <= span.begin.t]
    ended = [e for e in history.of("ended", role=engine) if e.t <= due]
    if not before or rank not in _members(before[-1]):
        return []
    wave = before[-1].number("wave")
    if any(e.number("wave") > wave for e in ended):
        return []  # that wave had ended, or its own all-reduce told it
    first = next((e for e in starts if e.t >= span.begin.t and e.number("wave") > wave), None)
    if first is not None and first.t <= due and rank not in _members(first):
        return []
    what = f"{engine}, in wave {wave} with {span.role}, heard of a wave without it"
    return [_late(history, span, what, first)]


def _members(start: Event) -> list[int]:
    return [each for each in start.items("members") if isinstance(each, int)]


def _back(
    scenario: Scenario, history: History, span: Span, rank: int, gone: list[Span], told: int
) -> tuple[list[Violation], int]:
    if span.end is None:
        return [], told
    due = _due(history, span.end.t)
    for front in scenario.front_ends():
        first = _first(history, front, span.end.t, lambda p: p.of(rank) is not None)
        if first is None or first.t > due:
            if not all(there(history, r, span.end.t, due, gone) for r in (front, span.role)):
                continue
            return [_late(history, span, f"{front} heard that {span.role} is back", first)], told
        told += 1
    return [], told


# -- the coordinator --------------------------------------------------------------------------


def _centre(
    scenario: Scenario, history: History, span: Span, gone: list[Span]
) -> tuple[list[Violation], int]:
    told, due = 0, _due(history, span.begin.t)
    if span.role == "parent" and span.for_good:
        ends = [e for e in history.of("gone") if e.text("target") == "coordinator"]
        if not ends or ends[0].t > due:
            what = f"the coordinator ended after {span.words()}"
            return [_late(history, span, what, ends[0] if ends else None)], 0
        told += 1
    if span.role == "coordinator" and span.for_good:
        word = next((e for e in history.of("coordinator-gone") if e.t >= span.since), None)
        alive = not any(s.role == "parent" and s.begin.t <= due for s in gone)
        if alive and (word is None or word.t > due):
            return [_late(history, span, f"the parent was told of {span.words()}", word)], 0
        told += alive
    if span.role == "parent" and not span.for_good:
        return [], told
    brief = span.end is not None and span.end.t < due
    for peer in (*scenario.engines(), *scenario.front_ends()):
        lost = [e for e in history.of("coordinator-lost", role=peer) if e.t >= span.since]
        if not lost or lost[0].t > due:
            if brief or not there(history, peer, span.begin.t, due, gone):
                continue
            first = lost[0] if lost else None
            return [_late(history, span, f"{peer} noticed {span.words()}", first)], told
        told += 1
    return [], told


def _unasked(history: History, gone: list[Span]) -> list[Violation]:
    """A coordinator that ended although nothing was done to it or its parent."""
    closed = history.first("coordinator-close")
    meant = [span.since for span in gone if span.role in _CENTRE]
    for event in history.of("coordinator-gone"):
        after = closed is not None and event.t >= closed.t
        if not after and not any(t <= event.t for t in meant):
            cause = f"the coordinator ended after {gone[0].words()}"
            return [Violation("crash", cause, evidence(history, [gone[0].begin, event]))]
    return []


# -- requests and counts ----------------------------------------------------------------------


def _unstepped(
    scenario: Scenario, history: History, gone: list[Span]
) -> tuple[list[Violation], int]:
    """Requests of engines that are there which came to be in no wave, and how many did."""
    stepped = 0
    for request in history.of("request"):
        role = request.role
        if role not in scenario.engines():
            continue
        done = next(
            (
                e
                for e in history.of("stepped", role=role)
                if e.t >= request.t and e.number("n") == request.number("n")
            ),
            None,
        )
        troubles = [request.t]
        for span in gone:
            troubles += [span.begin.t] + ([span.end.t] if span.end else [])
        troubles += [e.t for e in history.of("coordinator-started", "linked")]
        until = done.t if done else max(troubles) + ms(_NOTICED)
        since = max(t for t in troubles if t <= until)
        due = _due(history, since)
        if done is None and (
            not there(history, role, request.t, due, gone) or _restarted(history, request)
        ):
            continue
        if done is None or done.t > due:
            number = request.number("n")
            cause = f"request {number} of {role} (for wave {request.number('wave')}) was in no wave"
            how = "ever" if done is None else f"for {(done.t - since) / 1e9:.2f} s"
            after = f" after {gone[-1].words()}" if gone else ""
            events = [*(s.begin for s in gone), request, *([done] if done else [])]
            return [Violation("lost", f"{cause} {how}{after}", evidence(history, events))], stepped
        stepped += 1
    return [], stepped


def _restarted(history: History, request: Event) -> bool:
    """Return whether the request's engine lost the coordinator, or linked anew, since then."""
    told = history.of("coordinator-lost", "linked", role=request.role)
    return any(e.t >= request.t for e in told)


def _unheard(scenario: Scenario, history: History, gone: list[Span]) -> list[Violation]:
    found, _ = unheard(scenario, history, _HEARD)
    return [Violation("lost", f"after {gone[0].words()} {v.cause}", v.evidence) for v in found]


def _due(history: History, since: int) -> int:
    until = since + ms(_NOTICED)
    return until + history.allowance(since, until)


def _first(
    history: History, front: str, since: int, says: Callable[[Publication], bool]
) -> Event | None:
    return next(
        (p.event for p in publications(history, front) if p.event.t >= since and says(p)), None
    )


def _late(history: History, span: Span, what: str, first: Event | None) -> Violation:
    lines = evidence(
        history, [span.begin, *([span.end] if span.end else []), *([first] if first else [])]
    )
    if first is None:
        return Violation("no-error", f"not within {_NOTICED:g} s, and never after: {what}", lines)
    since = span.end if span.end is not None and first.t > span.end.t else span.begin
    took = (first.t - since.t) / 1e9
    return Violation("late", f"{what} only after {took:.2f} s; the limit is {_NOTICED:g} s", lines)
