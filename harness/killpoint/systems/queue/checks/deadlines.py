"""Time: deadlines, cancellation and wake-ups, against a control wait of the same run (Q8, Q9)."""

from __future__ import annotations

from collections.abc import Iterator

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Receive, Scenario
from killpoint.systems.queue.record import Got, Sent, got, planned, sent
from killpoint.verdict import Violation

_EARLY = 0.001
"""Seconds, the resolution of poll(2): an earlier return by less cannot be told from rounding."""
PROMPT = 100_000_000
"""ns within which a party that waits hears of what it waits for."""
_MOVING = 0.9
"""Seconds more for a call that came back with its message: copying it is no waiting."""


def check_q9_deadlines(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q9: a timeout is neither early nor late; a cancel wakes within 100 ms."""
    found = hangs(history, "send", "receive", "ready")
    calls = _timed_calls(scenario, history)
    waits = sum(event.text("outcome") == "timeout" for _, event, _ in calls)
    found = found or list(late_or_early(scenario, history))[:1]
    for event in history.of("cancel"):
        ended = next(
            (e for e in history.of("got", "sent", role=event.role) if e.t >= event.t), None
        )
        allowed = PROMPT + history.allowance(event.t, event.t + 2 * PROMPT)
        if found:
            break
        if ended is not None and ended.text("outcome") == "ok":
            returned = _returned(history, ended)
            if returned <= event.t + allowed:
                continue  # its message was there: it did not wait when the cancel came
        waits += 1
        if ended is None or ended.text("outcome") in ("ok", "timeout"):
            how = ended.text("outcome") if ended else "nothing"
            cause = f"a cancel did not end what {event.role} waited in; it ended with: {how}"
            found = [
                Violation("hang", cause, evidence(history, [event, *([ended] if ended else [])]))
            ]
        elif ended.t - event.t > allowed:
            took = (ended.t - event.t) / 1e6
            cause = f"{event.role} woke {took:.0f} ms after the cancel; the limit is 100 ms"
            found = [Violation("late", cause, evidence(history, [event, ended]))]
    if not found and not waits:
        raise Inconclusive("no call ran into its deadline and none was cancelled")
    return Finding(found[:1], {"waits": waits})


def late_or_early(scenario: Scenario, history: History) -> Iterator[Violation]:
    """Yield each call that ended after its deadline, or ran into it too early."""
    for role, event, timeout in _timed_calls(scenario, history):
        violation = _judge_wait(history, role, event, timeout)
        if violation is not None:
            yield violation


def _returned(history: History, ended: Event) -> int:
    """Return when the call itself returned: its result was examined before that was logged."""
    took = ended.data.get("s")
    began = [e for e in history.of("receive", "send", role=ended.role) if e.t <= ended.t]
    if not began or not isinstance(took, (int, float)):
        return ended.t
    return min(ended.t, began[-1].t + int(took * 1e9))


def _timed_calls(scenario: Scenario, history: History) -> list[tuple[str, Event, float]]:
    calls: list[tuple[str, Event, float]] = []
    for reader in scenario.readers():
        for call in got(history, reader):
            timeout = call.began.data.get("timeout")
            if call.ended is not None and isinstance(timeout, (int, float)):
                calls.append((reader, call.ended, float(timeout)))
    plan = planned(scenario)
    for message in sent(history):
        step, _ = plan.get(message.seq, (None, None))
        timeout = message.began.data.get("timeout", step.timeout if step else None)
        if message.ended is not None and isinstance(timeout, (int, float)):
            calls.append((message.ended.role, message.ended, float(timeout)))
    return calls


def _judge_wait(history: History, role: str, event: Event, timeout: float) -> Violation | None:
    took = event.data.get("s")
    if not isinstance(took, (int, float)):
        return None
    due = max(timeout, 0.0)
    since = event.t - int(took * 1e9)
    expired = event.text("outcome") == "timeout"
    allowed = due + 0.1 + history.allowance(since, event.t) / 1e9
    allowed += 0.0 if expired else _MOVING
    if expired and took < due - _EARLY:
        cause = f"{role}'s call with timeout {timeout:g} s gave up after {took:.4f} s: too early"
        return Violation("late", cause, evidence(history, [event]))
    if took > allowed:
        cause = f"{role}'s call with timeout {timeout:g} s took {took:.2f} s"
        cause += "" if expired else f", and ended with: {event.text('outcome')}"
        return Violation("late", cause, evidence(history, [event]))
    return None


def check_q8_wakeups(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q8: a reader that waits hears of each publication within 100 ms.

    Messages that are sent at once count as one wake-up: whether a reader sleeps again between two
    messages of a step is a race.
    """
    if not any(isinstance(step, Receive) for step in scenario.steps):
        raise Inconclusive("nobody received")
    found = hangs(history, "receive")
    wakes = set[tuple[str, int]]()
    first = _first_of_its_step(scenario)
    by_seq = {message.seq: message for message in sent(history)}
    for reader in scenario.readers():
        found = found or _slept_through(history, reader)
        for call in got(history, reader):
            message = by_seq.get(call.seq)
            if call.outcome != "ok" or message is None or call.ended is None:
                continue
            if call.began.t > message.began.t or message.ended is None:
                continue
            wakes.add((reader, first.get(message.seq, message.seq)))
            took = call.ended.t - message.ended.t
            if took > PROMPT + history.allowance(message.ended.t, call.ended.t) and not found:
                cause = (
                    f"{reader}, idle, woke for message {call.seq} only {took / 1e6:.0f} ms"
                    " after its publication; the limit is 100 ms"
                )
                found = [Violation("late", cause, evidence(history, [message.ended, call.ended]))]
    if not found and not wakes:
        raise Inconclusive("no message was published while a reader waited")
    return Finding(found[:1], {"wake-ups": len(wakes)})


def _first_of_its_step(scenario: Scenario) -> dict[int, int]:
    """Return, for each message, the first one that its step sends."""
    plan = planned(scenario)
    first: dict[int, int] = {}
    for seq, (step, _) in plan.items():
        before = plan.get(seq - 1)
        first[seq] = first[seq - 1] if before is not None and before[0] is step else seq
    return first


def _slept_through(history: History, reader: str) -> list[Violation]:
    """A receive that ran into its own timeout although a message was published during it."""
    calls = got(history, reader)
    for call in calls:
        if call.outcome != "timeout" or call.ended is None:
            continue
        for message in sent(history):
            if _should_have_woken(history, message, call) and not _taken(calls, message, call):
                cause = (
                    f"{reader}, idle, ran into its own timeout although message {message.seq} was"
                    " published while it waited: the wake-up was lost"
                )
                lines = [event for event in (call.began, message.ended, call.ended) if event]
                return [Violation("late", cause, evidence(history, lines))]
    return []


def _should_have_woken(history: History, message: Sent, call: Got) -> bool:
    if not message.ok or message.ended is None or call.ended is None:
        return False
    allowed = PROMPT + history.allowance(message.ended.t, call.ended.t)
    return message.began.t >= call.began.t and call.ended.t - message.ended.t > allowed


def _taken(calls: list[Got], message: Sent, before: Got) -> bool:
    """Return whether another thread of the reader had taken the message by then."""
    assert before.ended is not None
    return any(
        call.seq == message.seq and call.ended is not None and call.ended.t <= before.ended.t
        for call in calls
    )
