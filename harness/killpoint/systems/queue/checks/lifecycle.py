"""Life of a queue: its handshake, its endings, and what a clean ending owes (Q10, Q11, Q16)."""

from __future__ import annotations

import re

from killpoint.checkers.finding import (
    Finding,
    Inconclusive,
    Lacking,
    deaths,
    evidence,
    hangs,
)
from killpoint.checkers.held_up import full
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Ready, Scenario
from killpoint.systems.queue.record import Got, got, mismatches, sent, torn
from killpoint.verdict import Violation

_WITHIN = 2.0
_OUT_OF_TIME = 0.5
"""The part of those seconds after which an ending may have given up: it does so before they end."""
_TEARDOWN = 2.0
"""Seconds granted to an interpreter for its own modules, torch among them, on a busy machine."""


def check_q10_ready(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q10: the handshake ends by its deadline; it succeeds only if every reader is there."""
    found = hangs(history, "ready")
    dead = deaths(history)
    ends = [event for event in history.of("end") if event.text("op") == "ready"]
    absent = sorted(
        reader
        for reader in scenario.readers()
        if not any(e.text("outcome") == "ok" for e in ends if e.role == reader)
    )
    for event in ends:
        if found:
            break
        if (
            event.role == "writer"
            and event.text("outcome") == "ok"
            and _never_came(history, absent)
        ):
            gone = ", ".join(_never_came(history, absent))
            left = f": the departure of {', '.join(dead)} was counted as an arrival" if dead else ""
            cause = f"the writer's wait_until_ready succeeded although {gone} never attached{left}"
            found = [Violation("no-error", cause, evidence(history, [event, *dead.values()]))]
        else:
            limit = _limit(scenario, history, event)
            found = [] if limit is None else _overdue(history, event, limit)
    if not found and not ends:
        raise Inconclusive("nobody came to the handshake")
    return Finding(found[:1], {"handshakes": len(ends)})


def _never_came(history: History, absent: list[str]) -> list[str]:
    attached = {
        event.role
        for event in history.of("end")
        if event.text("op") == "attach" and event.text("outcome") == "ok"
    }
    return [reader for reader in absent if reader not in attached]


def _limit(scenario: Scenario, history: History, end: Event) -> float | None:
    """The deadline of the handshake that ended so: as logged, else that of its step."""
    begun = [e for e in history.of("begin", role=end.role) if e.text("op") == "ready"]
    begun = [event for event in begun if event.t <= end.t]
    if begun and "timeout" in begun[-1].data:
        logged = begun[-1].data["timeout"]
        return float(logged) if isinstance(logged, (int, float)) else None
    steps = [
        step
        for step in scenario.steps
        if isinstance(step, Ready) and end.role in scenario.named(step.roles)
    ]
    place = len(begun) - 1
    return steps[place].timeout if 0 <= place < len(steps) else None


def _overdue(history: History, event: Event, limit: float) -> list[Violation]:
    took = event.data.get("s")
    if not isinstance(took, (int, float)):
        return []
    slack = 0.5 + history.allowance(event.t - int(took * 1e9), event.t) / 1e9
    if took <= limit + slack:
        return []
    cause = f"{event.role}'s handshake with deadline {limit:g} s took {took:.1f} s"
    return [Violation("late", cause, evidence(history, [event]))]


def check_q11_close(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q11: close, collection and interpreter exit take at most 2 s."""
    found = hangs(history, "close", "drop", "exit", "interpreter exit")
    endings = [
        event for event in history.of("end") if event.text("op") in ("close", "drop", "exit")
    ]
    for event in endings:
        found = found or _slow_ending(history, event)
    if not found and not endings:
        raise Inconclusive("nothing was closed")
    return Finding(found[:1], {"endings": len(endings)})


def _slow_ending(history: History, event: Event) -> list[Violation]:
    op, until, took = event.text("op"), event.t, event.data.get("s")
    if op == "exit":
        since, until = _exit_span(history, event)
        took = (until - since) / 1e9
    if not isinstance(took, (int, float)):
        return []
    allowed = _WITHIN + history.allowance(until - int(took * 1e9), until) / 1e9
    if took <= allowed + (_TEARDOWN if op == "exit" else 0.0):
        return []
    cause = f"{event.role}'s {op} took {took:.1f} s; the limit is {_WITHIN:g} s"
    return [Violation("late", cause, evidence(history, [event]))]


def _exit_span(history: History, end: Event) -> tuple[int, int]:
    """From the order to exit to the end of the process; a span of nothing if that was not seen."""
    begun = [e for e in history.of("begin", role=end.role) if e.text("op") == "exit"]
    since = max((event.t for event in begun if event.t <= end.t), default=end.t)
    for gone in history.of("exit"):
        if gone.text("target") == end.role and gone.t >= end.t:
            return since, gone.t
    return since, since


def check_q16_delivered_before_close(
    scenario: Scenario, history: History, _ledger: Ledger
) -> Finding:
    """Q16: all that was enqueued arrives, or the next receive raises with the number lost."""
    accepted = [message for message in sent(history) if message.ok]
    if not accepted and (why := full(history)):
        raise Lacking(why)
    if not accepted:
        raise Inconclusive("nothing was enqueued before the close")
    found: list[Violation] = []
    for reader in scenario.readers():
        if reader in deaths(history) or found:
            continue
        found = _after_close(scenario, history, reader)
    if found and found[0].kind == "lost" and (why := _starved_ending(history)):
        raise Inconclusive(why)
    return Finding(found[:1], {"messages": len(accepted)})


def _starved_ending(history: History) -> str:
    """Return why the writer's end was starved: it took all its time, mostly without a processor.

    Messages still unsent at the end are sent within a time (Q11), and not without a processor.
    """
    for event in history.of("end", role="writer"):
        op, took = event.text("op"), event.data.get("s")
        if op == "exit":
            since, until = _exit_span(history, event)
        elif op in ("close", "drop") and isinstance(took, (int, float)):
            since, until = event.t - int(took * 1e9), event.t
        else:
            continue
        lasted = until - since
        if lasted >= _OUT_OF_TIME * _WITHIN * 1e9 and history.lateness(since, until) > lasted / 2:
            return (
                f"the writer's {op} took {lasted / 1e9:.1f} s, and for most of that the machine"
                " kept it, or a reader, from running: what it could have sent is not known"
            )
    return ""


def _after_close(scenario: Scenario, history: History, reader: str) -> list[Violation]:
    accepted = {message.seq for message in sent(history) if message.ok}
    calls = got(history, reader)
    lost = len(accepted - {call.seq for call in calls if call.outcome == "ok"})
    told = next((call for call in calls if call.outcome == "lost"), None)
    excused = told is not None and lost in numbers_in(told)
    optional = frozenset(accepted) if excused else frozenset[int]()
    differ = mismatches(history, reader, optional=optional, tail_may_miss=True)
    for _, _, call in torn(history, [reader], scenario.shape.chunk_bytes):
        differ = differ or [Violation("wrong-data", f"{reader} received message {call.seq} torn")]
    if differ or (excused and lost):
        return differ
    if lost:
        return [_dropped(scenario, history, reader, lost)]
    if told is not None and told.ended is not None:
        error = told.ended.text("error")
        cause = f"{reader} received every message and was told of a loss all the same: {error}"
        return [Violation("lost", cause, evidence(history, [told.ended]))]
    return []


def numbers_in(told: Got) -> set[int]:
    """Return the numbers in an error's text, without the place in the code that ends it."""
    error = told.ended.text("error") if told.ended else ""
    return {int(word) for word in re.findall(r"\d+", re.sub(r"\s*\([^()]*:\d+\)$", "", error))}


def _dropped(scenario: Scenario, history: History, reader: str, lost: int) -> Violation:
    accepted = [message for message in sent(history) if message.ok]
    big = any(message.size >= scenario.shape.chunk_bytes for message in accepted)
    calls = got(history, reader)
    how = calls[-1].outcome if calls else "no receive"
    unsent = " (what was still on its way went with the writer's end)"
    path = unsent if big or reader in scenario.remote() else ""
    cause = (
        f"{lost} of {len(accepted)} messages enqueued before the writer's end never reached"
        f" {reader}{path}, and it was not told: its last receive ended with: {how}"
    )
    lines = list(history.of("sent", "end", role="writer"))[-4:]
    return Violation(
        "lost", cause, evidence(history, [*lines, *list(history.of("got", role=reader))[-3:]])
    )
