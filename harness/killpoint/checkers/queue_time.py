"""Time: deadlines, cancellation and wake-ups, against a control wait of the same run (Q8, Q9)."""

from __future__ import annotations

from killpoint.checkers.delivery import got, sent
from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Receive, Scenario, Send
from killpoint.verdict import Violation

_EARLY = 0.001
"""The resolution of poll(2): an earlier return by less is not told apart from rounding."""
_PROMPT = 100_000_000


def deadlines(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q9: a timeout is neither early nor late; a cancel wakes within 100 ms."""
    found = hangs(history, "send", "receive", "ready")
    waits = 0
    for role, event, timeout in _timed_calls(scenario, history):
        if event.text("outcome") != "timeout":
            continue
        waits += 1
        violation = _judge_wait(history, role, event, timeout)
        if violation and not found:
            found = [violation]
    for event in history.of("cancel"):
        waits += 1
        ended = next(
            (e for e in history.of("got", "sent", role=event.role) if e.t >= event.t), None
        )
        allowed = _PROMPT + 2 * history.late_tick(event.t, event.t + 2 * _PROMPT)
        if found:
            break
        if ended is None or ended.text("outcome") in ("ok", "timeout"):
            how = ended.text("outcome") if ended else "nothing"
            cause = f"a cancel did not end what {event.role} waited in; it ended with: {how}"
            found = [
                Violation("hang", cause, evidence(history, [event, *([ended] if ended else [])]))
            ]
        elif ended.t - event.t > allowed:
            took = (ended.t - event.t) / 1e6
            cause = f"{event.role} woke {took:.0f} ms after the cancel"
            found = [Violation("late", cause, evidence(history, [event, ended]))]
    if not found and not waits:
        raise Inconclusive("no call ran into its deadline and none was cancelled")
    return Finding(found[:1], {"waits": waits})


def _timed_calls(scenario: Scenario, history: History) -> list[tuple[str, Event, float]]:
    calls: list[tuple[str, Event, float]] = []
    for reader in scenario.readers():
        for call in got(history, reader):
            timeout = call.began.data.get("timeout")
            if call.ended is not None and isinstance(timeout, (int, float)):
                calls.append((reader, call.ended, float(timeout)))
    sends = [step for step in scenario.steps if isinstance(step, Send)]
    limit = {step.timeout for step in sends if step.timeout is not None}
    for message in sent(history):
        if message.ended is not None and len(limit) == 1:
            calls.append(("writer", message.ended, float(next(iter(limit)))))
    return calls


def _judge_wait(history: History, role: str, event: Event, timeout: float) -> Violation | None:
    took = event.data.get("s")
    if not isinstance(took, (int, float)):
        return None
    due = max(timeout, 0.0)
    since = event.t - int(took * 1e9)
    allowed = due + 0.1 + 2 * history.late_tick(since, event.t) / 1e9
    if took < due - _EARLY:
        cause = f"{role}'s call with timeout {timeout:g} s gave up after {took:.4f} s: too early"
        return Violation("late", cause, evidence(history, [event]))
    if took > allowed:
        cause = f"{role}'s call with timeout {timeout:g} s took {took:.2f} s"
        return Violation("late", cause, evidence(history, [event]))
    return None


def woken(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q8: a reader that waits hears of each publication within 100 ms."""
    if not any(isinstance(step, Receive) for step in scenario.steps):
        raise Inconclusive("nobody received")
    found = hangs(history, "receive")
    wakes = 0
    by_seq = {message.seq: message for message in sent(history)}
    for reader in scenario.readers():
        for call in got(history, reader):
            message = by_seq.get(call.seq)
            if call.outcome != "ok" or message is None or call.ended is None:
                continue
            if call.began.t > message.began.t or message.ended is None:
                continue
            wakes += 1
            took = call.ended.t - message.ended.t
            if took > _PROMPT + 2 * history.late_tick(message.ended.t, call.ended.t) and not found:
                cause = (
                    f"{reader}, idle, heard of message {call.seq} only {took / 1e6:.0f} ms later"
                )
                found = [Violation("late", cause, evidence(history, [message.ended, call.ended]))]
    return Finding(found[:1], {"wake-ups": wakes})
