"""Deaths: the survivors lose no whole message, and get an error within 2 s (Q6, Q7)."""

from __future__ import annotations

from killpoint.checkers.finding import (
    Finding,
    Inconclusive,
    deaths,
    evidence,
    hangs_of,
    ordered_end,
)
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Fault, Scenario
from killpoint.systems.queue.detection_time import Call, ended_after, overdue, receives, sends
from killpoint.systems.queue.record import got, mismatches, overflowing, sent, torn
from killpoint.verdict import Violation


def check_q6_writer_death(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q6: whole messages first, then an error that is not the call's own timeout."""
    dead = deaths(history)
    if "writer" not in dead:
        raise Inconclusive("the writer was not seen dead by the signal")
    alive = [reader for reader in scenario.readers() if reader not in dead]
    if not alive:
        raise Inconclusive("no reader was left to be told")
    _nobody_hung_before(history, ordered_end(history, "writer"))
    found: list[Violation] = []
    doubts: list[str] = []
    for reader in alive:
        try:
            found = found or _reader_after(scenario, history, reader, dead["writer"])
        except Inconclusive as doubt:
            doubts.append(str(doubt))
    if not found and len(doubts) == len(alive):
        raise Inconclusive(doubts[0])
    return Finding(found[:1], {"deaths": 1})


def _nobody_hung_before(history: History, death: int | None) -> None:
    """Raise if a role hung before the death: that says nothing of a death.

    Raises:
        Inconclusive: a role did.
    """
    for event in history.of("hang"):
        if death is not None and event.t < death:
            who = f"{event.text('target')} hung in {event.text('op')}"
            raise Inconclusive(f"{who} before anybody was killed")


def _reader_after(
    scenario: Scenario, history: History, reader: str, death: Event
) -> list[Violation]:
    for who, _, call in torn(history, [reader], scenario.shape.chunk_bytes):
        cause = f"{who} received message {call.seq} torn or altered after the writer's death"
        return [Violation("wrong-data", cause, _calls(history, reader))]
    stuck = hangs_of(history, reader)
    if stuck:
        return [_with_promise(scenario, history, stuck[0])]
    unsure: set[int] = set()
    for message in sent(history):
        if unsure or overflowing(message, scenario.shape.chunk_bytes) or not message.ok:
            unsure.add(message.seq)
    calls = receives(history, reader)
    told = _told(history, calls)
    # What is in a dead process's own socket buffers is gone: from afar the end may be missing.
    tail_may_miss = told is None or reader in scenario.remote()
    found = mismatches(history, reader, optional=frozenset(unsure), tail_may_miss=tail_may_miss)
    if found and found[0].kind != "lost":
        return found
    late = overdue(history, calls, told, death)
    if told is None:
        if not late and not found:
            raise Inconclusive(f"{reader} made no call that was to be told of the writer's death")
        return _never_told(history, reader) if late else found
    return found or _too_late(history, reader, told, late)


def _never_told(history: History, reader: str) -> list[Violation]:
    how = got(history, reader)[-1].outcome
    cause = f"{reader} was never told that the writer died; its last receive ended with: {how}"
    return [Violation("no-error", cause, _calls(history, reader))]


def _with_promise(scenario: Scenario, history: History, stuck: Violation) -> Violation:
    """Name the mechanism where it is known: a slot that promises a payload that never left."""
    last = sent(history)[-1] if sent(history) else None
    if last is not None and last.ok and overflowing(last, scenario.shape.chunk_bytes):
        returned = (
            f"{stuck.cause}; the send of message {last.seq} ({last.size} bytes, larger than a slot)"
            " had returned before the writer was killed"
        )
        return Violation(stuck.kind, returned, stuck.evidence)
    at_marker = any(s.at is not None and s.at.name for s in scenario.steps if isinstance(s, Fault))
    if last is None or last.ok or not at_marker:
        return stuck
    promise = (
        f"{stuck.cause}; the slot says that the overflow payload of message {last.seq} follows,"
        " and it never left the writer"
    )
    return Violation(stuck.kind, promise, stuck.evidence)


def _told(history: History, calls: list[Call]) -> Call | None:
    """Return the first call that failed since the writer began to be killed, or to close."""
    closing = [event.t for event in history.of("begin", role="writer") if _closes(event)]
    leaves = min([ordered_end(history, "writer") or 0, *closing])
    for call in calls:
        if call.tells and call.ended is not None and call.ended.t >= leaves:
            return call
    return None


def _closes(event: Event) -> bool:
    return event.text("op") in ("close", "drop", "exit")


def _too_late(history: History, who: str, told: Call, late: float | None) -> list[Violation]:
    if late is None or told.ended is None:
        return []
    cause = f"{who} was told of the death only after {late:.2f} s; the limit is 2 s"
    return [Violation("late", cause, _calls(history, who))]


def check_q7_reader_death(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q7: the writer errs within 2 s, or goes on; the other readers lose nothing."""
    dead = {name: end for name, end in deaths(history).items() if name != "writer"}
    if not dead:
        raise Inconclusive("no reader was seen dead by the signal")
    last = max(dead.values(), key=lambda event: event.t)
    _nobody_hung_before(
        history, min(ordered_end(history, name) or end.t for name, end in dead.items())
    )
    found = hangs_of(history, "writer") or _writer_after(history, ", ".join(dead), last)
    for reader in scenario.readers():
        if reader not in dead:
            found = found or _survivor(scenario, history, reader)
    # The end is recorded when it has been reaped; whoever watches the process knows before that.
    struck = min(ordered_end(history, name) or end.t for name, end in dead.items())
    if not found and not ended_after(sends(history), struck):
        raise Inconclusive("the writer made no call after the reader's death")
    return Finding(found[:1], {"deaths": len(dead)})


def _writer_after(history: History, dead: str, death: Event) -> list[Violation]:
    """Check that the writer's calls after the death end within 2 s, and not with a timeout."""
    calls = sends(history)
    for call in ended_after(calls, death.t):
        late = overdue(history, calls, call, death)
        if late is None or call.ended is None:
            continue
        lines = evidence(history, [death, call.ended])
        if call.outcome == "timeout":
            cause = (
                f"the writer's send of message {call.seq} ran into its own timeout with"
                f" {dead} dead: it was never told"
            )
            return [Violation("no-error", cause, lines)]
        did = "went on" if call.outcome == "ok" else "was told of a reader's death"
        cause = f"the writer {did} only {late:.2f} s after the death; the limit is 2 s"
        return [Violation("late", cause, lines)]
    return []


def _survivor(scenario: Scenario, history: History, reader: str) -> list[Violation]:
    """A reader that lives loses nothing that was sent before it stopped reading of itself."""
    unsure = {message.seq for message in sent(history) if not message.ok}
    calls = receives(history, reader)
    if calls and calls[-1].outcome == "timeout" and calls[-1].ended is not None:
        stopped = calls[-1].ended.t
        unsure |= {m.seq for m in sent(history) if m.ended is None or m.ended.t > stopped}
    return mismatches(history, reader, optional=frozenset(unsure)) or [
        Violation("wrong-data", f"{who} received message {call.seq} altered")
        for who, _, call in torn(history, [reader], scenario.shape.chunk_bytes)
    ]


def _calls(history: History, role: str) -> list[str]:
    return evidence(
        history, [*history.of("fault", "exit"), *list(history.of("got", role=role))[-4:]]
    )
