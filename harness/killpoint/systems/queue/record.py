"""Messages sent and received, read off a history, and the differences between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Literal, TypeVar

import msgspec

from killpoint.checkers.finding import Inconclusive, evidence
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Message, RingWrite, Scenario, Send
from killpoint.verdict import Violation

_Odd = Literal["wrong-data", "duplicate", "reordered", "lost"]
"""Way in which a received message differs from the next one that was due."""


_ENVELOPE = {"bytes": 64, "array": 512, "tensor": 1024}
_LARGEST_ENVELOPE = 64 * 1024
"""Bytes at most that a message takes beside its content, by its form: number, checksum, lengths,
types and shapes of arrays."""


class Sent(msgspec.Struct):
    """One message at its sender."""

    seq: int
    form: str
    size: int
    digest: str
    began: Event
    ended: Event | None = None
    """None if the send never returned."""
    mutated: str = ""
    """Digest of the message after the sender changed it; empty if it did not."""

    @property
    def ok(self) -> bool:
        """True if the send ended with outcome ``ok``."""
        return self.ended is not None and self.ended.text("outcome") == "ok"

    @property
    def uncertain(self) -> bool:
        """True if the message may be published or not: its send was struck, or never returned."""
        return self.ended is None or self.ended.text("outcome") == "injected"


class Got(msgspec.Struct):
    """One receive call at a reader."""

    outcome: str
    seq: int
    digest: str
    began: Event
    ended: Event | None = None


_Call = TypeVar("_Call", Sent, Got)


def sent(history: History) -> list[Sent]:
    """All messages, in the order in which their calls began."""
    found: dict[int, Sent] = {}
    for event in history.of("send", "sent", "mutated"):
        seq = event.number("seq")
        if event.kind == "send":
            digest = event.text("digest")
            found[seq] = Sent(seq, event.text("form"), event.number("size"), digest, event)
        elif event.kind == "sent":
            found[seq].ended = event
        else:
            found[seq].mutated = event.text("digest")
    return list(found.values())


def got(history: History, reader: str) -> list[Got]:
    """All receive calls of a reader; with several threads, in the order of their ends."""
    calls: list[Got] = []
    began: list[Event] = []
    for event in history.of("receive", "got", role=reader):
        if event.kind == "receive":
            began.append(event)
        else:
            start = began.pop(0) if began else event
            outcome, digest = event.text("outcome"), event.text("digest")
            calls.append(Got(outcome, event.number("seq"), digest, start, event))
    calls += [Got("never returned", -1, "", start) for start in began]
    return calls


def wrong_data(history: History, readers: list[str]) -> Iterator[tuple[str, Sent | None, Got]]:
    """Each arrival that is not equal to what was sent under its number."""
    by_seq = {message.seq: message for message in sent(history)}
    for reader in readers:
        for call in got(history, reader):
            if call.outcome == "ok":
                message = by_seq.get(call.seq)
                if message is None or call.digest != message.digest:
                    yield reader, message, call


def torn(
    history: History, readers: list[str], chunk_bytes: int
) -> Iterator[tuple[str, Sent | None, Got]]:
    """Yield arrivals that differ for another reason than a change by the sender after its call.

    Bytes that the sender wrote after its call can arrive whole, or, beside the ring, in part: those
    are judged by Q3 alone.
    """
    for reader, message, call in wrong_data(history, readers):
        if message is None or not message.mutated:
            yield reader, message, call
            continue
        inline = message.form != "buffers" and message.size < chunk_bytes
        if inline and call.digest != message.mutated:
            yield reader, message, call


def planned(scenario: Scenario) -> dict[int, tuple[Send, Message]]:
    """The step and the description that each number of a message stands for."""
    plan: dict[int, tuple[Send, Message]] = {}
    number = 0
    for step in scenario.steps:
        if isinstance(step, RingWrite):
            number += 1
        elif isinstance(step, Send):
            for message in step.messages:
                for _ in range(message.repeat):
                    plan[number] = (step, message)
                    number += 1
    return plan


def mismatches(
    history: History,
    reader: str,
    *,
    optional: frozenset[int] = frozenset(),
    tail_may_miss: bool = False,
) -> list[Violation]:
    """Compare a reader's arrivals with every message whose send returned, in order.

    Calls of several threads that were under way at the same time have no order among them.

    Args:
        optional: numbers that may arrive or not.
        tail_may_miss: whether the reader may have stopped early: it saw an error, or was asked to.

    Raises:
        Inconclusive: the reader had stopped to receive before the missing messages were sent.
    """
    calls = got(history, reader)
    expected = [m for m in sent(history) if m.ok or m.uncertain or m.seq in optional]
    first = _places(call.seq for call in calls)
    expected = _with_order(expected, [first.get(m.seq, len(calls)) for m in expected])
    calls = _with_order(calls, _due(calls, expected))
    may_miss = optional | {m.seq for m in expected if not m.ok}
    places = _places(message.seq for message in expected)
    position = 0
    for call in calls:
        if call.outcome != "ok":
            if call.outcome == "error":
                after = _after_error(expected, position, may_miss)
                if after is None:
                    return [_again(history, reader, call, expected[:position])]
                position = after
            continue
        index = places.get(call.seq)
        if index is None:
            return [_odd(history, reader, call, "wrong-data", _unpublished(history, call.seq))]
        if index < position:
            kind = "duplicate" if _had(history, reader, call) else "reordered"
            before = expected[position - 1]
            return [_odd(history, reader, call, kind, f"after message {before.seq}", before)]
        skipped = [m for m in expected[position:index] if m.seq not in may_miss]
        if skipped:
            arrives_later = {c.seq for c in got(history, reader)}
            kind = "reordered" if skipped[0].seq in arrives_later else "lost"
            due = skipped[0]
            return [_odd(history, reader, call, kind, f"before message {due.seq}", due)]
        position = index + 1
    missing = [m for m in expected[position:] if m.seq not in may_miss]
    if missing and not tail_may_miss:
        _asked_for(history, reader, missing)
        return [_missing(history, reader, missing)]
    return []


def _with_order(calls: list[_Call], places: list[int]) -> list[_Call]:
    """The calls by when they were made, and by these places if they were under way at once."""
    ordered: list[_Call] = []
    at_once: list[tuple[int, _Call]] = []
    until = 0.0
    for call, place in zip(calls, places, strict=True):
        if call.began.t >= until:
            ordered += [each for _, each in sorted(at_once, key=itemgetter(0))]
            at_once = []
        at_once.append((place, call))
        until = max(until, call.ended.t if call.ended is not None else math.inf)
    return ordered + [each for _, each in sorted(at_once, key=itemgetter(0))]


def _due(calls: list[Got], expected: list[Sent]) -> list[int]:
    """The place of each call's message; an error stands for the next undecodable one."""
    place = _places(message.seq for message in expected)
    raised = (place[message.seq] for message in expected if message.form == "undecodable")
    return [
        next(raised, len(expected))
        if call.outcome == "error"
        else place.get(call.seq, len(expected))
        for call in calls
    ]


def _places(seqs: Iterable[int]) -> dict[int, int]:
    """The place of each number where it comes first."""
    places: dict[int, int] = {}
    for at, seq in enumerate(seqs):
        places.setdefault(seq, at)
    return places


def _unpublished(history: History, seq: int) -> str:
    """Return why a message should not have arrived: a failed call has published nothing (X1)."""
    for message in sent(history):
        if message.seq == seq and message.ended is not None:
            return f"whose send had ended with {message.ended.text('outcome')}"
    return "which was never sent"


def _asked_for(history: History, reader: str, missing: list[Sent]) -> None:
    """Raise Inconclusive if a reader stopped to receive before the missing messages were sent."""
    calls = got(history, reader)
    last = calls[-1].ended if calls else None
    if last is not None and all(message.began.t > last.t for message in missing):
        first = missing[0].seq
        raise Inconclusive(f"{reader} had stopped to receive before message {first} was sent")


def _after_error(expected: list[Sent], position: int, may_miss: frozenset[int]) -> int | None:
    """Return a reader's position after a receive that raised; None if it had no cause to raise."""
    due = next(
        (
            index
            for index in range(position, len(expected))
            if expected[index].form == "undecodable" or expected[index].seq not in may_miss
        ),
        None,
    )
    if due is not None:
        return due + 1 if expected[due].form == "undecodable" else None
    twice = position == len(expected) > 0 and expected[-1].form == "undecodable"
    return None if twice else position


def overflowing(message: Sent, chunk_bytes: int) -> bool:
    """Return whether the message was surely larger than a slot."""
    return message.form != "buffers" and message.size >= chunk_bytes


def may_overflow(message: Sent, chunk_bytes: int) -> bool:
    """Return whether the message, with all that it is sent in, may have been larger than a slot."""
    return message.size + _ENVELOPE.get(message.form, _LARGEST_ENVELOPE) >= chunk_bytes


def _had(history: History, reader: str, call: Got) -> bool:
    return sum(c.seq == call.seq and c.outcome == "ok" for c in got(history, reader)) > 1


def _odd(
    history: History, reader: str, call: Got, kind: _Odd, how: str, *beside: Sent
) -> Violation:
    """Return the violation; ``beside``: messages that its evidence shows too."""
    words: dict[_Odd, str] = {
        "wrong-data": f"{reader} received message {call.seq}, {how}",
        "duplicate": f"{reader} received message {call.seq} a second time",
        "reordered": f"{reader} received message {call.seq} {how}: the order was shifted",
        "lost": f"{reader} received message {call.seq} {how}, which never arrived:"
        " it was skipped in silence",
    }
    messages = [*beside, *(m for m in sent(history) if m.seq == call.seq)]
    return Violation(kind, words[kind], _lines(history, reader, messages, call))


def _again(history: History, reader: str, call: Got, before: list[Sent]) -> Violation:
    error = call.ended.text("error") if call.ended else ""
    failed = [m.seq for m in before if m.form == "undecodable"]
    if failed:
        times = sum(c.outcome == "error" for c in got(history, reader))
        cause = (
            f"{reader} raised for undecodable message {failed[-1]} {times} times, not once:"
            " its slot is never marked read, so each receive decodes the same message again and"
            " later ones cannot be reached"
        )
        return Violation("duplicate", cause, _lines(history, reader))
    return Violation("lost", f"{reader}'s receive raised: {error}", _lines(history, reader))


def _missing(history: History, reader: str, missing: list[Sent]) -> Violation:
    last = got(history, reader)
    how = last[-1].outcome if last else "nothing was received"
    what = "1 message that was" if len(missing) == 1 else f"{len(missing)} messages that were"
    cause = (
        f"{what} sent never arrived at {reader}, first message {missing[0].seq}"
        f" ({missing[0].size} bytes); its last receive ended with: {how}"
    )
    return Violation("lost", cause, _lines(history, reader, missing[:1]))


def _lines(
    history: History, reader: str, messages: Sequence[Sent] = (), until: Got | None = None
) -> list[str]:
    """Show these messages' sends, and what the reader received last, or until a receive's end."""
    end = until.ended if until is not None else None
    own = [
        event
        for event in history.of("got", "hang")
        if reader in (event.role, event.text("target")) and (end is None or event.t <= end.t)
    ]
    if end is not None:  # an arrival of the same message before that, too
        own = [e for e in own[:-5] if e.data.get("seq") == end.data.get("seq")][-1:] + own[-5:]
    sends = [event for m in messages[:2] for event in (m.began, m.ended) if event is not None]
    return evidence(history, sorted([*sends, *own[-6:]], key=lambda event: event.t))
