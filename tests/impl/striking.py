"""An exception before any line of an operation, one line after the other (R9)."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import refengine

HOME = str(Path(refengine.__file__).parent)


class Struck(BaseException):
    pass


@contextmanager
def start_struck(thread: threading.Thread) -> Iterator[None]:
    """Strike its start once the thread is made, which first runs when the context is left."""
    gate, bootstrap, wait = threading.Event(), thread._bootstrap, thread._started.wait

    def held_back() -> None:
        gate.wait()
        bootstrap()

    def struck(timeout: float | None = None) -> bool:
        raise Struck

    thread._bootstrap, thread._started.wait = held_back, struck
    try:
        with pytest.raises(Struck):
            yield
    finally:
        thread._started.wait = wait
        gate.set()
        assert thread._started.wait(10)
        thread.join(10)
        assert not thread.is_alive()


class Striker:
    """Raises once, before the n-th line that this thread runs in the package."""

    def __init__(self, at: int) -> None:
        self.at, self.lines, self.where = at, 0, ""

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "call" and _finalizes(frame):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                self.where = f"{frame.f_code.co_filename[len(HOME) :]}:{frame.f_lineno}"
                raise Struck
        return self.trace

    def during(self, act: Callable[[], Any]) -> list[Any]:
        """What it returned, in a list; an empty one if it was struck."""
        # Struck at the last line of an except clause, Python 3.11 goes on believing that its
        # exception is being handled, and keeps what its frames hold. The end of this handler
        # puts back what was handled before it.
        try:
            raise Struck
        except Struck:
            return self._traced(act)

    def _traced(self, act: Callable[[], Any]) -> list[Any]:
        before = sys.gettrace()
        sys.settrace(self.trace)
        try:
            return [act()]
        except Struck:
            return []
        finally:
            sys.settrace(before)


def _finalizes(frame: FrameType | None) -> bool:
    """Whether this is run by a finalizer, out of which no exception comes."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def strikes(stride: int = 1) -> Iterator[Striker]:
    """One after the other, until the operation is over before it is struck."""
    for at in range(1, 20_000, stride):
        striker = Striker(at)
        yield striker
        if striker.lines < at:
            assert at > 15 * stride
            return
    raise AssertionError("the operation never ends")
