"""Calls that do not wait: one thread takes their replies, in the order of the calls (SPEC W8)."""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any

from ..keeping import keep
from .calls import Left

Collect = Callable[[int, str, Sequence[int], Left, float | None], list[Any]]
"""Waits for the replies to a call: number, method, ranks, seconds left, the timeout."""
_TO_END = 1.0


@dataclass(frozen=True)
class Pending:
    """A call under way. `shape` makes the future's value of the replies."""

    number: int
    method: str
    ranks: Sequence[int]
    left: Left
    timeout: float | None
    shape: Callable[[list[Any]], Any]
    future: "Future[Any]"


class InOrder:
    """Resolves futures one after the other. While there is one, it alone takes replies."""

    def __init__(self, collect: Collect, refusal: Callable[[str], BaseException | None]) -> None:
        self._collect, self._refusal = collect, refusal
        self._rung: queue.SimpleQueue[bool] = queue.SimpleQueue()  # False: it is the end
        self.pending: deque[Pending] = deque()
        self._threads: list[threading.Thread] = []

    def add(self, pending: Pending) -> None:
        """From now on its replies are waited for."""
        self.pending.append(pending)
        self.ring()

    def ring(self) -> None:
        """Have everything that is pending seen to.

        Said again by whoever waits for a place: an exception may have struck between the two
        halves of `add`, and nobody else would take those replies (SPEC R9).
        """
        self._rung.put(True)
        if not self._threads:
            keep(self._threads, _thread, self._run)
        if not self._threads[0].ident:
            self._threads[0].start()

    def oldest(self) -> "Future[Any] | None":
        """The one that is resolved next."""
        with contextlib.suppress(IndexError):
            return self.pending[0].future
        return None

    def end(self, error: Callable[[str], BaseException]) -> None:
        """No reply will come: whoever is left gets the error."""
        self._rung.put(False)
        if self._threads and threading.current_thread() is not self._threads[0]:
            with contextlib.suppress(RuntimeError):  # it was never started
                self._threads[0].join(_TO_END)
        while self.pending:
            pending = self.pending.popleft()
            _resolve(pending.future.set_exception, error(pending.method))

    def _run(self) -> None:
        while self._rung.get():
            while self.pending:
                with contextlib.suppress(IndexError):  # the end took it
                    self._see_to(self.pending[0])

    def _see_to(self, pending: Pending) -> None:
        try:
            found = self._collect(
                pending.number, pending.method, pending.ranks, pending.left, pending.timeout
            )
            value = pending.shape(found)
        except BaseException as error:
            self._done(pending)
            _resolve(pending.future.set_exception, error)
        else:
            self._done(pending)
            _resolve(pending.future.set_result, value)

    def _done(self, pending: Pending) -> None:
        """Before its waiter wakes: the next call may find the way free."""
        with contextlib.suppress(ValueError):
            self.pending.remove(pending)


def new_future() -> "Future[Any]":
    """One that cannot be cancelled: the workers are at it."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def _resolve(tell: Callable[[Any], None], what: Any) -> None:
    with contextlib.suppress(InvalidStateError):
        tell(what)


def _thread(run: Callable[[], None]) -> threading.Thread:
    return threading.Thread(target=run, name="pool replies", daemon=True)
