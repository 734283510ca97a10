"""Deaths: the survivors lose nothing that was whole, and are told within 2 s (Q6, Q7)."""

from __future__ import annotations

from killpoint.checkers.delivery import Got, got, mismatches, overflowing, sent, wrong_data
from killpoint.checkers.finding import Finding, Inconclusive, crashes, deaths, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Fault, Scenario
from killpoint.verdict import Violation

_WITHIN = 2_000_000_000


def writer_death_told(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q6: whole messages first, then an error that is not the call's own timeout."""
    death = deaths(history).get("writer")
    if death is None:
        raise Inconclusive("the writer was not seen dead by the signal")
    found = crashes(history)
    for reader in scenario.readers():
        if reader not in deaths(history):
            found = found or _reader_after(scenario, history, reader, death)
    return Finding(found[:1], {"deaths": 1})


def _reader_after(
    scenario: Scenario, history: History, reader: str, death: Event
) -> list[Violation]:
    for who, message, call in wrong_data(history, [reader]):
        if message is None or not message.mutated:
            cause = f"{who} received message {call.seq} torn or altered after the writer's death"
            return [Violation("wrong-data", cause, _calls(history, reader))]
    unsure: set[int] = set()
    for message in sent(history):
        if unsure or overflowing(message, scenario.shape.chunk_bytes) or not message.ok:
            unsure.add(message.seq)
    found = mismatches(history, reader, optional=frozenset(unsure))
    told = _told(history, reader, death)
    stuck = [
        v
        for v, e in zip(hangs(history), history.of("hang"), strict=True)
        if e.text("target") == reader
    ]
    if stuck:
        return [_with_promise(scenario, history, stuck[0])]
    if found and found[0].kind != "lost":
        return found
    if told is None:
        last = got(history, reader)
        how = last[-1].outcome if last else "no receive was made"
        cause = f"{reader} was never told that the writer died; its last receive ended with: {how}"
        return [Violation("no-error", cause, _calls(history, reader))]
    return found or _too_late(history, reader, told, death)


def _with_promise(scenario: Scenario, history: History, stuck: Violation) -> Violation:
    """Name the mechanism where it is known: a slot that promises a payload that never left."""
    last = sent(history)[-1] if sent(history) else None
    at_marker = any(s.at is not None and s.at.name for s in scenario.steps if isinstance(s, Fault))
    if last is None or last.ok or not at_marker:
        return stuck
    promise = (
        f"{stuck.cause}; the slot says that the overflow payload of message {last.seq} follows,"
        " and it never left the writer"
    )
    return Violation(stuck.kind, promise, stuck.evidence)


def _told(history: History, reader: str, death: Event) -> Got | None:
    for call in got(history, reader):
        told = call.outcome not in ("ok", "timeout", "never returned")
        if told and call.ended is not None and call.ended.t >= death.t - _WITHIN:
            return call
    return None


def _too_late(history: History, who: str, call: Got, death: Event) -> list[Violation]:
    assert call.ended is not None
    since = max(death.t, call.began.t)
    allowed = _WITHIN + 2 * history.late_tick(since, call.ended.t)
    if call.ended.t - since <= allowed:
        return []
    took = (call.ended.t - since) / 1e9
    cause = f"{who} was told of the death only after {took:.2f} s"
    return [Violation("late", cause, _calls(history, who))]


def reader_death_told(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q7: the writer errs within 2 s, or goes on; the other readers lose nothing."""
    dead = {name: end for name, end in deaths(history).items() if name != "writer"}
    if not dead:
        raise Inconclusive("no reader was seen dead by the signal")
    last = max(dead.values(), key=lambda event: event.t)
    found = crashes(history)
    if not found:
        found = [
            violation
            for violation, event in zip(hangs(history), history.of("hang"), strict=True)
            if event.text("target") == "writer"
        ]
    for message in sent(history):
        if found or message.ended is None or message.ok:
            continue
        if message.ended.text("outcome") == "timeout" and message.ended.t > last.t:
            cause = (
                f"the writer's send of message {message.seq} ran into its own timeout with"
                f" {', '.join(dead)} dead: it was never told"
            )
            found = [Violation("no-error", cause, evidence(history, [last, message.ended]))]
        elif message.ended.t - max(last.t, message.began.t) > _WITHIN + 2 * history.late_tick(
            last.t, message.ended.t
        ):
            cause = "the writer was told of a reader's death later than 2 s after it"
            found = [Violation("late", cause, evidence(history, [last, message.ended]))]
    unsure = frozenset(message.seq for message in sent(history) if not message.ok)
    for reader in scenario.readers():
        if reader not in dead:
            found = found or mismatches(history, reader, optional=unsure)
            found = found or [
                Violation("wrong-data", f"{who} received message {call.seq} altered")
                for who, message, call in wrong_data(history, [reader])
                if message is None or not message.mutated
            ]
    return Finding(found[:1], {"deaths": len(dead)})


def _calls(history: History, role: str) -> list[str]:
    return evidence(
        history, [*history.of("fault", "exit"), *list(history.of("got", role=role))[-4:]]
    )
