"""The way a worker's results take to the parent: straight, or through a thread of their own."""

import logging
import queue
import threading
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from ..errors import Cancelled, PeerDied, QueueClosed
from ..queue import MessageQueue
from .leaving import Leave

_log = logging.getLogger(__name__)
_FLUSH = 2.0
Gone = Cancelled, QueueClosed, PeerDied
"""Nobody will read what is sent: the worker leaves."""


class Replies(Protocol):
    """Where results go."""

    def result(self, number: int, value: Any) -> None:
        """The value that the call of this number gave, or an object whose `get_output` does."""
        ...

    def failure(self, number: int, error: BaseException) -> None:
        """The error that it raised."""
        ...

    def close(self) -> None:
        """Send what is under way."""
        ...


class Straight:
    """Sends from the thread that calls it. A result that misbehaves is a failure."""

    def __init__(self, replies: MessageQueue) -> None:
        self._enqueue = replies.enqueue

    def result(self, number: int, value: Any) -> None:
        """See `Replies`; a result that cannot be sent is a failure."""
        try:
            if hasattr(value, "get_output"):
                value = value.get_output()
            self._enqueue((number, True, value))
        except (*Gone, Leave):
            raise
        except BaseException as error:
            self.failure(number, error)

    def failure(self, number: int, error: BaseException) -> None:
        """See `Replies`."""
        self._enqueue((number, False, told(error)))

    def close(self) -> None:
        """Nothing is under way."""


class ByThread:
    """The worker's main thread goes on with the next call while this one sends."""

    def __init__(self, straight: Straight) -> None:
        self._straight = straight
        self._waiting: queue.SimpleQueue[tuple[Callable[[int, Any], None], int, Any] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._send, name="output", daemon=True)
        self._thread.start()

    def result(self, number: int, value: Any) -> None:
        """See `Replies`."""
        self._waiting.put((self._straight.result, number, value))

    def failure(self, number: int, error: BaseException) -> None:
        """See `Replies`."""
        self._waiting.put((self._straight.failure, number, error))

    def close(self) -> None:
        """See `Replies`; within two seconds."""
        self._waiting.put(None)
        self._thread.join(_FLUSH)

    def _send(self) -> None:
        while (item := self._waiting.get()) is not None:
            send, number, value = item
            try:
                send(number, value)
            except Gone:
                return
            except BaseException:
                _log.exception("a reply could not be sent")
            del item, value


def told(error: BaseException) -> tuple[str, str]:
    """An error in words, and where it came from."""
    text = "".join(traceback.format_exception(error))
    try:
        reason = f"{type(error).__name__}: {error}"
    except Leave:
        raise
    except BaseException:
        reason = type(error).__name__
    return reason, text
