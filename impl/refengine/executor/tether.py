"""A worker's ear for its parent: what it is told besides calls, and that the parent is gone."""

import os
import queue
import select
import signal
from _thread import start_new_thread
from collections.abc import Callable
from typing import Any

from ..ownership import remove_own, sweep
from .children import await_end
from .leaving import Leaving
from .link import Link

LEAVE = "leave"
_TO_DIE = 0.5


def _end_everybody() -> None:
    """This process, and whatever it has started in its group."""
    os.killpg(0, signal.SIGKILL)


class Tether:
    """A thread that sleeps until the parent speaks or ends; it holds nobody up.

    If the parent has ended, it removes what that left behind, and ends the worker with every
    process of its group. Should it not come to that, the kernel does it (`hangup`).
    """

    def __init__(
        self,
        link: Link,
        death: int,
        leaving: Leaving,
        end: Callable[[], None] = _end_everybody,
    ) -> None:
        self._end = end
        self._link, self._death, self._leaving = link, death, leaving
        self._parent = link.maker()
        self._said: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def start(self) -> None:
        """Begin to listen."""
        start_new_thread(self._listen, ())

    def hear(self) -> Any:
        """The next thing the parent says; it has said `LEAVE` if that is what it is."""
        return self._said.get()

    def _listen(self) -> None:
        poller = select.poll()
        poller.register(self._link.fileno(), select.POLLIN)
        poller.register(self._death, 0)
        while True:
            ready = dict(poller.poll())
            if self._death in ready:
                self._orphaned()
            if self._link.fileno() in ready:
                self._obey()

    def _obey(self) -> None:
        try:
            message, _ = self._link.hear()
        except EOFError:
            self._orphaned()
            return
        if message == LEAVE:
            self._leaving.ask("the pool shuts down")
        self._said.put(message)

    def _orphaned(self) -> None:
        try:
            remove_own()
            await_end(self._parent, _TO_DIE)  # what is to be swept has a dead owner
            sweep()
            remove_own()  # what another thread was just making
        finally:
            self._end()
