"""One schedule again, from its list of choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killpoint.interfaces import Script


class Replay:
    """A single run; beyond the end of the list everything goes the default way.

    A choice that does not exist is the world's to refuse: the run is not the one that was kept.
    """

    def __init__(self, choices: Sequence[int]) -> None:
        self.name = "a replay"
        self._choices = choices
        self.exhausted = False

    def __iter__(self) -> Iterator[FixedSchedule]:
        """The one."""
        yield FixedSchedule(self._choices)
        self.exhausted = True


class FixedSchedule(Script):
    """Takes the listed choices."""

    __slots__ = ()
