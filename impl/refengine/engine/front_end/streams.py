"""What comes of one request, as it comes: tokens, then a finish or an error (SPEC E1)."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import DeadlinePassed
from ..errors import StreamEnded


@dataclass(frozen=True)
class Delta:
    """Some more tokens, the last ones if there is a finish."""

    tokens: tuple[int, ...]
    finish: str | None = None
    """Of: "stop", the model ended it; "length", it has as many as were asked for; "cancelled"."""


@dataclass(frozen=True)
class Completion:
    """All tokens of a request, and why there are no more."""

    tokens: tuple[int, ...]
    finish: str


StreamEvent = Delta | BaseException
Listener = Callable[[StreamEvent], None]


class Stream:
    """One request's. Any thread may use it; of two that take, each gets other deltas."""

    def __init__(self, request_id: str, cancel: Callable[[], None]) -> None:
        self.request_id = request_id
        self._cancel = cancel
        self._changed = threading.Condition()
        self._events: list[StreamEvent] = []
        self._taken = 0
        self._listeners: list[Listener] = []

    @property
    def ended(self) -> bool:
        """Whether its finish or its error has come."""
        return bool(self._events) and is_last(self._events[-1])

    def next(self, timeout: float | None = None) -> Delta:
        """What has come since the last `next`, or comes within so many seconds.

        Raises:
            RequestFailed, EngineClosed: that ended it; raised again whenever it is asked.
            StreamEnded: it had its finish.
            DeadlinePassed: nothing came; nothing changed.
        """
        with self._changed:
            if not self._changed.wait_for(self._has_event, timeout):
                raise DeadlinePassed(f"tokens of request {self.request_id}", timeout or 0.0)
            if self._taken == len(self._events):
                raise StreamEnded(self.request_id)
            event = self._events[self._taken]
            if isinstance(event, BaseException):
                raise event
            self._taken += 1
            return event

    def result(self, timeout: float | None = None) -> Completion:
        """All tokens, those that `next` gave included, once it has ended; raises as `next` does."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.ended, timeout):
                raise DeadlinePassed(f"the end of request {self.request_id}", timeout or 0.0)
            tokens: list[int] = []
            finish = ""
            for event in self._events:
                if isinstance(event, BaseException):
                    raise event
                tokens += event.tokens
                finish = event.finish or finish
            return Completion(tuple(tokens), finish)

    def subscribe(self, callback: Listener) -> None:
        """Have it called with what came so far, now, then with each as it comes.

        It is called on the engine's thread from then on, under the stream's lock: it hands on, and
        returns at once. After a finish or an error nothing comes any more.
        """
        with self._changed:
            for event in self._events:
                callback(event)
            self._listeners.append(callback)

    def cancel(self) -> None:
        """Want no more: it ends with the finish "cancelled", soon, unless it has ended."""
        self._cancel()

    def _has_event(self) -> bool:
        return self._taken < len(self._events) or self.ended

    def put(self, event: StreamEvent) -> None:
        """The engine's: this has come. What comes after the end is dropped."""
        with self._changed:
            if self.ended:
                return
            self._events.append(event)
            self._changed.notify_all()  # first: a listener may fail
            for listener in self._listeners:
                listener(event)


def is_last(event: StreamEvent) -> bool:
    """Whether nothing comes after it."""
    return isinstance(event, BaseException) or event.finish is not None
