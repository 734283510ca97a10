"""Steps of a bench as they are measured: a line at a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Protocol

from rich.console import Console

from killpoint.progress.text import span


class Tell(Protocol):
    """Receiver of progress: what is measured now, and how many steps of how many are done."""

    def __call__(self, text: str, done: int = 0, total: int = 0, /) -> None:
        """Receive progress; the time left is not shown where ``total`` is 0."""
        ...


def quiet(_text: str, _done: int = 0, _total: int = 0, /) -> None:
    """Show nothing: a :class:`Tell` without a display."""


class Steps:
    """Text on the current measurement, with the time left at the pace of the steps so far."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None

    def line(self, text: str, done: int, total: int) -> str:
        """Return one line; the clock runs from the first step on."""
        if not total:
            return text
        self._began = self._clock() if self._began is None or not done else self._began
        counted = f"{done + 1} of {total}: {text}"
        if not done:
            return counted
        left = (self._clock() - self._began) / done * (total - done)
        return f"{counted}, about {span(left)} left"


@contextlib.contextmanager
def counting(console: Console) -> Generator[Tell]:
    """Show the progress of a benchmark, until the context is left."""
    if not console.is_terminal:
        yield quiet
        return
    steps = Steps()
    with console.status("starting") as status:

        def tell(text: str, done: int = 0, total: int = 0, /) -> None:
            status.update(steps.line(text, done, total))

        yield tell
