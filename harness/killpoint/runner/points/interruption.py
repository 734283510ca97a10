"""Exceptions from outside: injected at a line, or raised by a signal handler."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import TypeVar

from killpoint.history.log import Log

T = TypeVar("T")


class InjectedError(Exception):
    """Raised at a point on the runner's behalf."""


class Interrupted(BaseException):
    """Raised by the handler of SIGUSR1. No ``except Exception`` catches it, as with Ctrl-C."""


STRUCK = (InjectedError, Interrupted)
"""Exceptions raised for the runner; any other is the target's own."""


def comes_of_a_strike(error: BaseException) -> bool:
    """Return whether an error is an injected exception, or has one in its chain."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if isinstance(each, STRUCK):
            return True
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            todo += [each.__cause__, each.__context__]
    return False


def isolated(act: Callable[[], T]) -> T:
    """Run an action; a handled exception that it leaves behind is dropped with its generator.

    An exception that is raised before the last line of an except clause makes Python 3.11 believe
    for good that the clause's exception is being handled, and keep all that its frames hold. A
    generator has exception state of its own.
    """
    return next(_yielded(act))


def _yielded(act: Callable[[], T]) -> Iterator[T]:
    yield act()


class Interrupter:
    """Handler of SIGUSR1: it raises only while the target's code is on the stack.

    A signal that arrives later would strike the harness, and say nothing of the target.
    """

    def __init__(self, is_own: Callable[[CodeType], bool], log: Log) -> None:
        """``is_own``: whether code belongs to the target."""
        self._is_own = is_own
        self._log = log

    def install(self) -> None:
        """Have SIGUSR1 raise here (main thread only, as Python has it)."""
        signal.signal(signal.SIGUSR1, self._handle)

    def strike(self) -> None:
        """Send the signal to this process: the handler has run when this returns, or raises."""
        os.kill(os.getpid(), signal.SIGUSR1)

    def _handle(self, _number: int, frame: FrameType | None) -> None:
        while frame is not None and not self._is_own(frame.f_code):
            frame = frame.f_back
        if frame is None:
            self._log.write("spared")
            return
        where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"
        self._log.write("raised", how="signal", where=where)
        raise Interrupted(f"interrupted at {where}")
