"""Life of a queue: its handshake, its endings, and what a clean ending owes (Q10, Q11, Q16)."""

from __future__ import annotations

import re

from killpoint.checkers.delivery import got, mismatches, sent, wrong_data
from killpoint.checkers.finding import Finding, Inconclusive, deaths, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Drop, Exit, Ready, Scenario
from killpoint.verdict import Violation

_WITHIN = 2.0


def ready_ends(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q10: the handshake ends by its deadline; it succeeds only if every reader is there."""
    found = hangs(history, "ready")
    dead = deaths(history)
    ends = [event for event in history.of("end") if event.text("op") == "ready"]
    limits = [s.timeout for s in scenario.steps if isinstance(s, Ready) and s.timeout is not None]
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
        elif limits:
            found = _overdue(history, event, max(limits))
    if not found and not ends:
        raise Inconclusive("nobody came to the handshake")
    return Finding(found[:1], {"handshakes": len(ends)})


def _never_came(history: History, absent: list[str]) -> list[str]:
    attached = {e.role for e in history.of("begin") if e.text("op") == "attach"}
    return [reader for reader in absent if reader not in attached]


def _overdue(history: History, event: Event, limit: float) -> list[Violation]:
    took = event.data.get("s")
    if not isinstance(took, (int, float)):
        return []
    slack = 0.5 + 2 * history.late_tick(event.t - int(took * 1e9), event.t) / 1e9
    if took <= limit + slack:
        return []
    cause = f"{event.role}'s handshake with deadline {limit:g} s took {took:.1f} s"
    return [Violation("late", cause, evidence(history, [event]))]


def endings_end(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q11: close, collection and interpreter exit take at most 2 s."""
    found = hangs(history, "close", "drop", "exit", "interpreter exit")
    endings = 0
    dropped = any(isinstance(step, (Drop, Exit)) for step in scenario.steps)
    for event in history.of("end"):
        if event.text("op") not in ("close", "drop", "exit"):
            continue
        endings += 1
        took = event.data.get("s")
        if event.text("op") == "exit":
            took = _exit_took(history, event)
        if not isinstance(took, (int, float)) or found:
            continue
        allowed = _WITHIN + 2 * history.late_tick(event.t - int(took * 1e9), event.t) / 1e9
        if took > allowed + (0.5 if event.text("op") == "exit" else 0.0):
            cause = f"{event.role}'s {event.text('op')} took {took:.1f} s"
            found = [Violation("late", cause, evidence(history, [event]))]
    if not found and not endings and dropped:
        raise Inconclusive("nothing was closed")
    return Finding(found[:1], {"endings": endings})


def _exit_took(history: History, event: Event) -> float:
    for gone in history.of("exit"):
        if gone.text("target") == event.role and gone.t >= event.t:
            return (gone.t - event.t) / 1e9
    return 0.0


def delivered_before_close(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q16: all that was enqueued arrives, or the next receive raises with the number lost."""
    accepted = [message for message in sent(history) if message.ok]
    if not accepted:
        raise Inconclusive("nothing was enqueued before the close")
    found: list[Violation] = []
    for reader in scenario.readers():
        if reader in deaths(history) or found:
            continue
        calls = got(history, reader)
        arrived = [call.seq for call in calls if call.outcome == "ok"]
        lost = len(accepted) - len(arrived)
        told = next((call for call in calls if call.outcome == "lost"), None)
        if told is not None and told.ended is not None:
            numbers = [int(word) for word in re.findall(r"\d+", told.ended.text("error"))]
            if lost in numbers:
                continue
        differ = mismatches(history, reader, tail_may_miss=True)
        torn = [c.seq for _, m, c in wrong_data(history, [reader]) if m is None or not m.mutated]
        if differ or torn:
            found += differ or [
                Violation("wrong-data", f"{reader} received message {torn[0]} torn")
            ]
        elif lost:
            found.append(_dropped(scenario, history, reader, lost))
    return Finding(found[:1], {"messages": len(accepted)})


def _dropped(scenario: Scenario, history: History, reader: str, lost: int) -> Violation:
    accepted = [message for message in sent(history) if message.ok]
    big = sum(message.size >= scenario.shape.chunk_bytes for message in accepted)
    calls = got(history, reader)
    how = calls[-1].outcome if calls else "no receive"
    path = " (overflow path: their sockets were closed with the payloads unsent)" if big else ""
    cause = (
        f"{lost} of {len(accepted)} messages enqueued before the writer's end never reached"
        f" {reader}{path}, and it was not told: its last receive ended with: {how}"
    )
    lines = list(history.of("sent", "end", role="writer"))[-4:]
    return Violation(
        "lost", cause, evidence(history, [*lines, *list(history.of("got", role=reader))[-3:]])
    )
