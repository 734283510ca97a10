"""Sends that wait for room, several threads of a rank at once: each passes when it can (H4).

What a rank has sent and its taker has not received may lie in its buffer. A send waits only while
its tensor does not fit beside that, or while one that waits before it does not. Tensors of threads
that overlap may come in either order; of all others, in the order of their sends.
"""

from __future__ import annotations

from collections.abc import Iterator

from killpoint.checkers.finding import evidence
from killpoint.history.record import History
from killpoint.systems.pipe.record import Call, Lane
from killpoint.verdict import Kind, Violation

_SECONDS = 1_000_000_000
_GOES_ON = 500_000_000
"""ns within which a send that waits goes on, and ends, once there is room."""
_COMES = 400_000_000
"""ns within which a tensor that was sent before comes to a rank that receives."""
_LATE = 300_000_000
_EARLY = 0.02
_NEVER = 1 << 62


class RoomRules:
    """Rules for the sends of one rank and the receives of the next."""

    def __init__(self, history: History, lane: Lane, limit: int, until: int) -> None:
        """``limit``: bytes of the buffer; ``until``: time before the first end of a rank, ns."""
        self._history, self._lane, self._limit, self._until = history, lane, limit, until
        self._sent = {call.digest: call for call in lane.sent}
        self._arrived: dict[str, Call] = {}

    def broken(self) -> Iterator[Violation]:
        """Yield what cannot be explained."""
        yield from self._arrivals()
        for call in (*self._lane.sent, *self._lane.got):
            yield from self._failed(call)
            yield from self._deadline(call)
        for call in self._lane.got:
            yield from self._took_nothing(call)
        for call in self._lane.sent:
            yield from self._waited_in_vain(call)

    def _says(self, kind: Kind, cause: str, *calls: Call) -> Violation:
        events = [event for call in calls for event in call.events()]
        return Violation(kind, cause, evidence(self._history, events))

    def _arrivals(self) -> Iterator[Violation]:
        """Each tensor arrives as it was sent, once, and before those that were sent after it."""
        for call in self._lane.got:
            if not call.ok or call.ended is None:
                continue
            sent = self._sent.get(call.digest)
            if sent is None or sent.began.t > call.ended.t:
                cause = f"{call.words()} brought nothing that {self._lane.source} had sent"
                yield self._says("wrong-data", cause, call)
                continue
            if call.digest in self._arrived:
                cause = f"{sent.words()} came to {call.role} a second time"
                yield self._says("duplicate", cause, sent, self._arrived[call.digest], call)
            self._arrived[call.digest] = call
            for other in self._lane.sent:
                if other.ok and _end(other) < sent.began.t and other.digest not in self._arrived:
                    cause = f"{sent.words()} came before {other.words()}, which had been sent first"
                    yield self._says("reordered", cause, other, sent, call)

    def _failed(self, call: Call) -> Iterator[Violation]:
        """Nothing fails while all ranks are there."""
        if call.tells and call.ended is not None and call.ended.t < self._until:
            cause = f"{call.words()} failed, and no rank was gone: {call.error}"
            yield self._says("lost", cause, call)

    def _deadline(self, call: Call) -> Iterator[Violation]:
        """A call ends in its own time, and runs out of that at its end."""
        if call.ended is None or call.timeout is None:
            return
        allowed = (_LATE + self._history.allowance(call.began.t, call.ended.t)) / _SECONDS
        early = call.outcome == "timeout" and call.seconds < call.timeout - _EARLY
        if early or call.seconds > call.timeout + allowed:
            cause = f"{call.words()} with timeout {call.timeout:g} s ended ({call.outcome})"
            yield self._says("late", f"{cause} after {call.seconds:.2f} s", call)

    def _took_nothing(self, call: Call) -> Iterator[Violation]:
        """A receive runs out of time only while nothing that was sent is due."""
        if call.outcome != "timeout" or call.ended is None or call.ended.t >= self._until:
            return
        for sent in self._lane.sent:
            arrived = self._arrived.get(sent.digest)
            if not sent.ok or (arrived is not None and _end(arrived) < call.ended.t):
                continue
            since = max(_end(sent), call.began.t)
            if _over(call) - since > _COMES + self._history.allowance(since, call.ended.t):
                cause = f"{call.words()} took nothing, though {sent.words()} was due"
                yield self._says("starved", cause, sent, call)

    def _waited_in_vain(self, call: Call) -> Iterator[Violation]:
        """A send goes on once there is room, and nobody before it waits for more."""
        if call.ended is None or call.ended.t >= self._until:
            return
        if not call.ok and call.outcome != "timeout":
            return
        free = self._free_since(call)
        if free is None:
            return
        waited = _over(call) - free
        if waited > _GOES_ON + self._history.allowance(free, call.ended.t):
            others = [each for each in self._lane.sent if self._gone(each) == free]
            how = "was sent only" if call.ok else "found no room, and gave up"
            cause = f"{call.words()} {how} {waited / _SECONDS:.2f} s after there was room for it"
            yield self._says("starved", cause, *others, call)

    def _free_since(self, call: Call) -> int | None:
        """Return the time from which on a send had room until it ended, ns; None: it had not.

        Each other send is taken to hold its bytes from the begin of this one until it failed, or
        its tensor was received.
        """
        assert call.ended is not None
        own, began, ended = call.began.number("bytes", 0), call.began.t, call.ended.t
        held = [
            (self._gone(other), other.began.number("bytes", 0))
            for other in self._lane.sent
            if other is not call and other.began.t < ended
        ]
        for since in sorted({began, *(gone for gone, _ in held if began < gone < ended)}):
            used = [size for gone, size in held if gone > since]
            if not used or sum(used) + own <= self._limit:
                return since
        return None

    def _gone(self, call: Call) -> int:
        """Return the time from which on a send holds nothing, ns."""
        if call.outcome == "timeout":
            return _end(call)
        arrived = self._arrived.get(call.digest)
        return _end(arrived) if arrived is not None else _NEVER


def _over(call: Call) -> int:
    """Return the time at which a call ended, or was to end by its own timeout, ns."""
    if call.ok or call.timeout is None:
        return _end(call)
    return min(_end(call), call.began.t + int(call.timeout * _SECONDS))


def _end(call: Call) -> int:
    return call.ended.t if call.ended is not None else _NEVER
