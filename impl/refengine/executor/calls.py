"""Calls to every worker and their replies, which are told apart by the call's number (SPEC W2).

A number is used once. A reply to any other call than the one that is waited for belongs to one
that was given up, and is dropped; each rank's replies come in the order of its calls.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from ..end import countdown
from ..errors import DeadlinePassed, Undecodable
from ..queue import MessageQueue
from .errors import CallFailed
from .messages import skeleton

_LOOK = 0.02
Left = Callable[[], float | None]


class Calls:
    """The parent's ends of the queues. One thread asks at a time, one takes replies."""

    def __init__(self, requests: MessageQueue, replies: Sequence[MessageQueue]) -> None:
        self._enqueue = requests.enqueue
        self._dequeues = [queue.dequeue for queue in replies]
        self.ranks = list(range(len(replies)))
        self._number = 0
        self._due = [0 for _ in replies]  # each rank's last call that it is to answer
        self._had = [0 for _ in replies]  # and the last one that it has answered

    def ask(
        self,
        method: str | bytes,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        only: int | None,
        timeout: float | None,
        *,
        in_turn: bool = True,
    ) -> int:
        """Publish a request; its number. All or nothing, as `enqueue`.

        `in_turn`: nobody takes replies now, so that this call may drop those that are left over.
        They could fill a worker's queue, and it would not come to read what we ask.
        """
        number = self._number = self._number + 1
        request = (number, method, args, kwargs, only)
        if in_turn and self._due != self._had:
            self._ask_in_between(request, timeout)
        else:
            self._enqueue(request, timeout)
        if only is None:
            self._due = [number] * len(self._due)
        else:
            self._due[only] = number
        return number

    def _ask_in_between(self, request: object, timeout: float | None) -> None:
        left = countdown(timeout, time.monotonic)
        while True:
            for rank in self.ranks:
                self._drop(rank)
            seconds = left()
            late = seconds is not None and seconds <= _LOOK
            try:
                self._enqueue(request, _LOOK if seconds is None else min(_LOOK, seconds))
            except DeadlinePassed:
                if late:
                    raise DeadlinePassed("a worker to take a request", timeout or 0) from None
            else:
                return

    def _drop(self, rank: int) -> None:
        """Take the replies that are there; nobody waits for them."""
        try:
            while self._had[rank] < self._due[rank]:
                self._take(rank, 0.0)
        except DeadlinePassed:
            pass

    def replies(self, number: int, method: str, ranks: Sequence[int], left: Left) -> list[Any]:
        """What these ranks answer to that call, in this order.

        Raises CallFailed for the first that failed, DeadlinePassed once `left()` is not positive.
        """
        found: list[Any] = []
        for rank in ranks:
            got, well, value = self._take(rank, left())
            while got != number:
                got, well, value = self._take(rank, left())
            if not well:
                raise CallFailed(rank, method, *value)
            found.append(value)
        return found

    def missing(self, number: int) -> list[int]:
        """The ranks that have not answered that call."""
        return [rank for rank in self.ranks if self._had[rank] < number <= self._due[rank]]

    def _take(self, rank: int, seconds: float | None) -> tuple[int, bool, Any]:
        try:
            reply = self._dequeues[rank](seconds)
        except Undecodable as error:
            reply = _undecodable(error)
        self._had[rank] = reply[0]
        return reply


def _undecodable(error: Undecodable) -> tuple[int, bool, Any]:
    found = skeleton(getattr(error, "undecoded", b""))
    if found is None:
        raise error
    cause = error.__cause__
    return found[0], False, (f"its result cannot be decoded here: {cause!r}", "")
