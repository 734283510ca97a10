"""What a step gives is kept in the step itself: no exception from outside falls between (R9).

An exception injected between two steps, or raised by a signal handler, loses what was made and
not yet kept. So the interpreter's own loops keep it, before any line of ours goes on.
"""

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from itertools import starmap
from typing import TypeVar

Thing = TypeVar("Thing")


def keep(kept: "list[Thing] | deque[Thing]", make: Callable[..., Thing], *args: object) -> None:
    """Append what `make(*args)` gives to a list or deque."""
    kept.extend(starmap(make, (args,)))


class Undo(ExitStack):
    """What is to be given back, last first."""

    def made(
        self, drop: Callable[[Thing], object], make: Callable[..., Thing], *args: object
    ) -> Thing:
        """Make a thing that `drop` gives back, if it came to be made."""
        things: list[Thing] = []
        self.callback(deque, map(drop, things), 0)  # no line of ours between pop and drop
        keep(things, make, *args)
        return things[0]
