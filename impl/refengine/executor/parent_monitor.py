"""A worker's watch over its parent, and the request to shut down that follows from it.

A worker leaves because of a signal, because its parent asks, or because the parent has ended.
"""

import os
import queue
import select
import signal
from _thread import start_new_thread
from collections.abc import Callable
from types import FrameType
from typing import Any

from ..base.ownership import remove_own, remove_stale_names
from .errors import signal_name
from .process import Link, await_end

_SIGNAL_STATUS_BASE = 128


class ShutdownRequested(SystemExit):
    """SIGTERM or SIGINT has come: raised once, wherever the worker's main thread stands."""


class ShutdownRequest:
    """Request to the worker to leave, with its reason and the exit status.

    `on_request` takes what wakes a waiting operation. The exception alone would not do: raised in a
    destructor, it would be lost.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.status = 0
        self._callbacks: list[Callable[[], None]] = []

    @property
    def requested(self) -> bool:
        """True if the worker is to leave."""
        return bool(self.reason)

    def on_request(self, callback: Callable[[], None]) -> None:
        """Have this called when the worker is to leave, or now if it is already."""
        self._callbacks.append(callback)
        if self.reason:
            callback()

    def request(self, reason: str, status: int = 0) -> bool:
        """Make the request, from any thread; return False if there was one already."""
        if self.reason:
            return False
        self.reason, self.status = reason, status
        for callback in list(self._callbacks):
            callback()
        return True

    def handle_signals(self) -> None:
        """Have SIGTERM and SIGINT raise `ShutdownRequested`, once; a second signal is ignored."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        status = _SIGNAL_STATUS_BASE + number
        self.request(signal_name(number), status)
        raise ShutdownRequested(status)


LEAVE = "leave"
_PARENT_EXIT_WITHIN = 0.5


def _kill_own_group() -> None:
    """Kill this process, and every process that it has started in its group."""
    os.killpg(0, signal.SIGKILL)


class ParentMonitor:
    """A thread that sleeps until the parent sends a message or ends; it keeps no process alive.

    If the parent has ended, the thread removes what that left behind, and ends the worker with
    every process of its group. Should it not come to that, the kernel does it
    (`process.send_signal_at_hangup`).
    """

    def __init__(
        self,
        link: Link,
        death_pipe: int,
        shutdown_request: ShutdownRequest,
        end: Callable[[], None] = _kill_own_group,
    ) -> None:
        self._end = end
        self._link, self._death_pipe, self._shutdown_request = link, death_pipe, shutdown_request
        self._parent = link.creator_pidfd()
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the thread."""
        start_new_thread(self._listen, ())

    def next_message(self) -> Any:
        """Wait for the parent's next message; `LEAVE` among them."""
        return self._messages.get()

    def _listen(self) -> None:
        poller = select.poll()
        poller.register(self._link.fileno(), select.POLLIN)
        poller.register(self._death_pipe, 0)
        while True:
            ready = dict(poller.poll())
            if self._death_pipe in ready:
                self._orphaned()
            if self._link.fileno() in ready:
                self._receive()

    def _receive(self) -> None:
        try:
            message, _ = self._link.receive()
        except EOFError:
            self._orphaned()
            return
        if message == LEAVE:
            self._shutdown_request.request("the pool shuts down")
        self._messages.put(message)

    def _orphaned(self) -> None:
        try:
            remove_own()
            await_end(self._parent, _PARENT_EXIT_WITHIN)  # the removal takes names of the dead
            remove_stale_names()
            remove_own()  # names that another thread was just making
        finally:
            self._end()
