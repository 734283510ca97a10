"""Backpressure: the reader that keeps a writer from sending, and whether it may.

A queue is bounded, so that a send waits for the slowest reader, and may run into its timeout. That
is no loss where a reader does not receive. Where each one sleeps in receive, or has closed its end,
nothing is left that could make room, and the queue is at fault.
"""

from __future__ import annotations

import msgspec

from killpoint.history.event import Event
from killpoint.history.record import History

_HELD = ("stop", "hold")
_LEAVES = ("close", "drop", "exit")
_ASLEEP = 1_000_000_000
"""ns in a receive that brought nothing, after which its reader has done what it could."""


class HeldUp(msgspec.Struct, frozen=True):
    """Reason why a send found no room."""

    words: str
    """The reader that has not moved, and what it does instead: for people."""
    by_queue: bool
    """True if the readers have done all they could: then room was due."""


class _Reader(msgspec.Struct, frozen=True):
    """One reader, as it stood at the end of a send that had waited for room."""

    name: str
    taken: int
    unread: int
    asleep: bool
    """True if the reader waited in a receive that brought nothing, for a second or half of that
    time."""
    stopped: bool
    closed: bool

    def words(self) -> str:
        messages = f"{self.unread} unread message{'s' * (self.unread != 1)}"
        of = f"{self.taken} of {self.taken + self.unread} messages"
        if self.closed:
            return f"{self.name}, which closed its end, has taken {of}"
        if self.stopped:
            return f"{self.name}, stopped, has taken {of}"
        if self.asleep:
            return f"{self.name} sleeps in receive beside {messages}"
        return f"{self.name} has taken {of} and is not receiving"


def held_up(history: History, began: int, ended: int) -> HeldUp | None:
    """Return what held up a send that waited for room from ``began`` to ``ended``, ns; or None."""
    accepted = sum(_ok(e) and e.t <= ended for e in history.of("sent"))
    names = sorted({e.role for e in history.events if e.role.startswith("reader-")})
    readers = [_reader(history, name, accepted, began, ended) for name in names]
    here = [reader for reader in readers if not reader.closed]
    behind = [reader for reader in here if reader.unread]
    if behind:
        slowest = max(behind, key=lambda reader: reader.unread)
        return HeldUp(slowest.words(), slowest.asleep and not slowest.stopped)
    left = [reader for reader in readers if reader.closed and reader.unread]
    if left:
        return HeldUp(left[0].words(), by_queue=True)
    if here and all(reader.asleep for reader in here):
        taken = f"all {accepted} message{'s' * (accepted != 1)}"
        words = f"every reader waits in receive and has taken {taken}: no room came back"
        return HeldUp(words, not any(reader.stopped for reader in here))
    return None


def full(history: History) -> str:
    """Return the message a queue did not take while a reader did not receive; empty if it took all.

    A bounded queue owes no more, so that a story with more unread messages cannot be played on it.
    """
    begun = {e.number("seq"): e for e in history.of("send")}
    for event in history.of("sent"):
        sent = begun.get(event.number("seq"))
        if event.text("outcome") != "timeout" or sent is None:
            continue
        holder = held_up(history, sent.t, event.t)
        if holder is None or not holder.by_queue:
            what = f"message {event.number('seq')} ({sent.text('form')}, {sent.text('size')} bytes)"
            why = f": {holder.words}" if holder is not None else ""
            return f"the queue takes no more unread messages: {what} found no room{why}"
    return ""


def _reader(history: History, name: str, accepted: int, began: int, ended: int) -> _Reader:
    calls = list(history.of("receive", "got", role=name))
    taken = sum(_took(e) for e in calls if e.t <= ended)
    asleep = _in_vain(calls, began, ended) >= min(_ASLEEP, (ended - began) // 2)
    faults = [e for e in history.of("fault") if e.text("target") == name and e.t <= ended]
    held = [word for e in faults if (word := e.text("fault")) in (*_HELD, "continue")]
    stopped = bool(held) and held[-1] in _HELD
    closed = any(
        e.text("op") in _LEAVES and e.t <= ended for e in history.of("begin", "end", role=name)
    )
    return _Reader(name, taken, max(0, accepted - taken), asleep, stopped, closed)


def _in_vain(calls: list[Event], began: int, ended: int) -> int:
    """Return for how long a reader's last receive in an interval had waited for nothing, ns."""
    waits = [place for place, e in enumerate(calls) if e.kind == "receive" and e.t <= ended]
    if not waits:
        return 0
    back = calls[waits[-1] + 1 :][:1]
    if back and back[0].t <= ended and _took(back[0]):
        return 0
    until = min(ended, back[0].t) if back else ended
    return until - max(began, calls[waits[-1]].t)


def _took(event: Event) -> bool:
    return event.kind == "got" and event.text("outcome") in ("ok", "error")


def _ok(event: Event) -> bool:
    return event.text("outcome") == "ok"
