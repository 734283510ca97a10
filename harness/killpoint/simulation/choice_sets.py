"""Choices at a point, made once for all runs with the same tasks.

A search asks some hundred times in each of thousands of runs, and nearly always for the same
choices: a search that records the options on offer holds the same few objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from killpoint.interfaces import Option

_UNASKED = Option(None, preempts=True)
_DUE = Option(None)
_AS_EVER = Option(None, value=True)
_OTHERWISE = Option(None, preempts=True, value=True)


class ChoiceSet:
    """Tasks that can run: the running one first, then the others in their order."""

    __slots__ = ("_beside", "options", "tasks")

    def __init__(self, names: Sequence[str], can: int, running: int | None) -> None:
        goes_on = running is not None and bool(can >> running & 1)
        self.tasks = [at for at in range(len(names)) if can >> at & 1 and at != running]
        """Their indices among all tasks."""
        options = [Option(names[at], preempts=goes_on) for at in self.tasks]
        if running is not None and goes_on:
            options.insert(0, Option(names[running]))
            self.tasks.insert(0, running)
        self.options: Sequence[Option] = tuple(options)
        self._beside: dict[tuple[int, bool], Sequence[Option]] = {}

    def beside(self, acts: int, may_wait: bool = False) -> Sequence[Option]:
        """Return these choices, and so many actions of the environment.

        Args:
            acts: number of actions.
            may_wait: the last of them is that time passes while the others are due.
        """
        options = self._beside.get((acts, may_wait))
        if options is None:
            kind = _UNASKED if self.tasks else _DUE
            last = [_UNASKED] if may_wait else [kind]
            options = (*self.options, *[kind] * (acts - 1), *last)
            self._beside[acts, may_wait] = options
        return options


Menus = dict[int, ChoiceSet]
"""Menus by the bits of the tasks that can run, and above them the bit of the running one."""


@lru_cache(maxsize=64)
def menus_of(names: tuple[str, ...]) -> Menus:
    """Return the menus of runs with these tasks, filled as they are needed."""
    del names
    return {}


@lru_cache(maxsize=256)
def values(count: int) -> Sequence[Option]:
    """Return so many options of a value for the running task, the first being the default."""
    return (_AS_EVER, *[_OTHERWISE] * (count - 1))
