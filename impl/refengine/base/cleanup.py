"""Clean-up that no exception from outside can miss (R9).

An exception injected between two steps, or raised by a signal handler, loses what was made and
not yet registered. So a resource is registered in the bytecode that creates it, inside a loop of
the interpreter's own. `reproduce_error` tells a message's own error from such an exception.
"""

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from itertools import starmap
from typing import TypeVar

Resource = TypeVar("Resource")


def append_atomically(
    kept: "list[Resource] | deque[Resource]", make: Callable[..., Resource], *args: object
) -> None:
    """Append the result of `make(*args)` to a list or deque, within one C call."""
    kept.extend(starmap(make, (args,)))


class ReleaseStack(ExitStack):
    """Resources to be released, the last one first."""

    def acquire(
        self, drop: Callable[[Resource], object], make: Callable[..., Resource], *args: object
    ) -> Resource:
        """Return the resource that `make` creates; `drop` releases it, if it was created."""
        things: list[Resource] = []
        self.callback(deque, map(drop, things), 0)  # no line of ours between pop and drop
        append_atomically(things, make, *args)
        return things[0]


class ServingThread(threading.Thread):
    """A daemon thread that serves an end, and whose own end `close` waits for."""

    def __init__(self, target: Callable[..., object], *args: object, name: str) -> None:
        super().__init__(target=target, args=args, name=name, daemon=True)
        self._decided: dict[str, bool] = {}

    def run(self) -> None:
        """Call the target, unless `prevent` came first."""
        if self._decided.setdefault("runs", True):
            super().run()

    def prevent(self) -> bool:
        """Return whether the target has not begun; if so, it never will.

        Then the end is the caller's to tear down. `ident` cannot tell: it is None, too, between a
        `start` that an exception from outside has ended early and the thread that comes of it.
        """
        return not self._decided.setdefault("runs", False)


class OnceStartedThread:
    """A daemon thread whose `start` may be called again: an exception may have struck in it.

    Nobody knows then whether a thread comes of it. So another one is made; the first to run calls
    the target, and all others end at once.
    """

    def __init__(self, target: Callable[[], object], name: str) -> None:
        self._target, self._name = target, name
        self._attempts: list[threading.Thread] = []
        self._runner: dict[str, threading.Thread] = {}

    def start(self) -> None:
        """Start the thread, unless it runs or has run."""
        if not self._runner and not any(thread.is_alive() for thread in self._attempts):
            append_atomically(self._attempts, self._attempt)
            self._attempts[-1].start()

    def is_current(self) -> bool:
        """Return whether the caller runs in it."""
        return threading.current_thread() is self._runner.get("thread")

    def join(self, seconds: float) -> None:
        """Wait for its end, for up to so many seconds; not if it has not begun."""
        if "thread" in self._runner:
            self._runner["thread"].join(seconds)

    def _attempt(self) -> threading.Thread:
        return threading.Thread(target=self._run, name=self._name, daemon=True)

    def _run(self) -> None:
        this = threading.current_thread()
        if self._runner.setdefault("thread", this) is this:
            try:
                self._target()
            finally:
                del self._target  # as `threading.Thread`: it may refer to who has this


def close_collected(close: Callable[[float], object], seconds: float) -> None:
    """Close the end of an object that was collected, or that is there at exit.

    The collector runs in whichever thread happens to make an object. One that serves an end can
    wait neither for itself nor, without holding its peers up, for another: a new one does it.
    """
    if isinstance(threading.current_thread(), ServingThread):
        threading.Thread(target=close, args=(seconds,), name="collected").start()
    else:
        close(seconds)


_REPRODUCE_WITHIN = 5.0  # seconds; decoding may want a lock that the caller's thread holds


def reproduce_error(decode: Callable[[], object]) -> type[BaseException] | None:
    """Return the type of the error that `decode` raises when called again; None if it raises none.

    None: the first error came from outside. The call runs in a thread of its own: signal handlers
    run in the main thread alone, so none strikes both times. None, too, if it takes over 5 s.
    """
    raised: list[type[BaseException]] = []

    def attempt() -> None:
        try:
            decode()
        except BaseException as error:
            raised.append(type(error))  # not itself: its frames hold the message

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(attempt,), name="retrial", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # there may be no more threads
        attempt()
    else:
        thread.join(_REPRODUCE_WITHIN)
    return raised[0] if raised else None
