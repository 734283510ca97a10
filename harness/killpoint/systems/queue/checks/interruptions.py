"""R9 of a queue: the struck calls were made, or were not, and all others go on as ever."""

from __future__ import annotations

from killpoint.checkers.interrupted import strikes_and, where_struck
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Close, Drop, Exit, Scenario
from killpoint.systems.queue.record import Got, got, mismatches, sent, torn
from killpoint.verdict import Violation

_ORDERS = ("make", "attach", "ready", "close", "drop")
_ENDS_WELL = ("ok", "injected")
_STOPS = (*_ENDS_WELL, "closed", "timeout")
"""How a reader's calls may end: it reads until there is nothing more to come."""


def queue_unharmed(scenario: Scenario, history: History) -> list[Violation]:
    """Return the differences from a queue in which the struck calls were made, or were not."""
    readers = scenario.readers()
    return (
        _failed_orders(history)
        or _failed_sends(history)
        or [v for reader in readers for v in _failed_receives(history, reader)]
        or [v for reader in readers for v in _arrivals(scenario, history, reader)]
        or _half_sent(scenario, history)
    )


def _failed_orders(history: History) -> list[Violation]:
    """A party's making, coming or going that failed by itself."""
    for event in history.of("end"):
        if event.text("op") in _ORDERS and event.text("outcome") not in _ENDS_WELL:
            call = f"{event.role}'s {event.text('op')}"
            return [_afterwards(history, call, event)]
    return []


def _failed_sends(history: History) -> list[Violation]:
    for message in sent(history):
        if message.ended is not None and message.ended.text("outcome") not in _ENDS_WELL:
            return [_afterwards(history, f"the send of message {message.seq}", message.ended)]
    return []


def _failed_receives(history: History, reader: str) -> list[Violation]:
    for call in got(history, reader):
        if call.ended is not None and call.outcome not in _STOPS:
            return [_afterwards(history, f"a receive of {reader}", call.ended)]
    return []


def _afterwards(history: History, call: str, event: Event) -> Violation:
    how = f"{event.text('outcome')} {event.text('error')}".strip()
    cause = f"{call} failed after an exception had struck {where_struck(history)}: {how}"
    return Violation("lost", cause, strikes_and(history, [event]))


def _arrivals(scenario: Scenario, history: History, reader: str) -> list[Violation]:
    for who, _, call in torn(history, [reader], scenario.shape.chunk_bytes):
        cause = f"{who} received message {call.seq} torn or altered"
        return [Violation("wrong-data", cause, strikes_and(history, _events(call)))]
    leaves = _leaves(scenario, reader)
    return [
        Violation(found.kind, f"{found.cause} (struck: {where_struck(history)})", found.evidence)
        for found in mismatches(history, reader, tail_may_miss=leaves)
    ]


def _half_sent(scenario: Scenario, history: History) -> list[Violation]:
    """A struck send is delivered to every reader or to none."""
    staying = [reader for reader in scenario.readers() if not _leaves(scenario, reader)]
    for message in sent(history):
        if not message.uncertain or message.ended is None:
            continue
        arrived = {
            reader: [c for c in got(history, reader) if c.outcome == "ok" and c.seq == message.seq]
            for reader in staying
        }
        have = [reader for reader in staying if arrived[reader]]
        lack = [reader for reader in staying if not arrived[reader]]
        if have and lack:
            cause = (
                f"message {message.seq}, whose send an exception struck at {where_struck(history)},"
                f" reached {', '.join(have)} and never {', '.join(lack)}: half done"
            )
            lines = [e for reader in have for call in arrived[reader] for e in _events(call)]
            return [Violation("lost", cause, strikes_and(history, [message.ended, *lines]))]
    return []


def _leaves(scenario: Scenario, reader: str) -> bool:
    """Return whether the reader leaves while the others stay."""
    steps = [step for step in scenario.steps if isinstance(step, (Close, Drop, Exit))]
    return any(reader in scenario.named(step.roles) for step in steps)


def _events(call: Got) -> list[Event]:
    return [call.began] if call.ended is None else [call.began, call.ended]
