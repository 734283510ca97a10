"""The stream of one request's results: tokens, then a finish or an error (SPEC E1)."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import DeadlinePassed
from ..errors import StreamEnded


@dataclass(frozen=True)
class Delta:
    """More tokens, the last ones if there is a finish."""

    tokens: tuple[int, ...]
    finish: str | None = None
    """"stop" (the model ended it), "length" (it has `max_tokens`) or "cancelled"."""


@dataclass(frozen=True)
class Completion:
    """All tokens of a request, and why there are no more."""

    tokens: tuple[int, ...]
    finish: str


StreamEvent = Delta | BaseException
Listener = Callable[[StreamEvent], None]


class Stream:
    """Results of one request. Any thread may use it; of two that take, each gets other deltas."""

    def __init__(self, request_id: str, cancel: Callable[[], None]) -> None:
        self.request_id = request_id
        self._cancel = cancel
        self._changed = threading.Condition()
        self._events: list[StreamEvent] = []
        self._taken = 0
        self._listeners: list[Listener] = []

    @property
    def ended(self) -> bool:
        """True if its finish or its error has come."""
        return bool(self._events) and is_last(self._events[-1])

    def next(self, timeout: float | None = None) -> Delta:
        """Return the next delta; wait up to `timeout` seconds for one.

        Raises:
            RequestFailed, EngineClosed: the error that ended it; raised by each further call.
            StreamEnded: it had its finish.
            DeadlinePassed: no delta came; call again to go on waiting.
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
        """Wait for the end; return all tokens, also those that `next` gave. Raises as `next`."""
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
        """Call `callback` with each event so far, now, and with each later one as it comes.

        Later calls are on the engine's thread, under the stream's lock: the callback must hand on
        and return at once. After a finish or an error there is no further event.
        """
        with self._changed:
            for event in self._events:
                callback(event)
            self._listeners.append(callback)

    def cancel(self) -> None:
        """Cancel the request: unless it has ended, it soon ends with the finish "cancelled"."""
        self._cancel()

    def _has_event(self) -> bool:
        return self._taken < len(self._events) or self.ended

    def put(self, event: StreamEvent) -> None:
        """Add an event (for the engine's use). Events after the end are dropped."""
        with self._changed:
            if self.ended:
                return
            self._events.append(event)
            self._changed.notify_all()  # first: a listener may fail
            for listener in self._listeners:
                listener(event)


def is_last(event: StreamEvent) -> bool:
    """Return whether this event is a stream's last."""
    return isinstance(event, BaseException) or event.finish is not None
