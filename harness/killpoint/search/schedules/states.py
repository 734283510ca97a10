"""States that a bounded search has come to: what goes on from one of them is played once.

Two schedules of which one has only swapped steps that do not touch each other come to one state,
and go on from it alike. A run that meets a state ends there, if the run that was there first had no
less to spend. (As happens-before caching in CHESS, Musuvathi and Qadeer 2008, with a state told by
what its tasks have seen.)
"""

from __future__ import annotations

from collections.abc import Sequence

from killpoint.interfaces import Option

_FOLLOWED = 50
"""One in so many runs that meet a state goes on: it must come to known states alone."""
_RUN = 40
"""Bits for the number of a run."""


class NotReducible(Exception):
    """A run went on otherwise from a state than an earlier one: states are not told apart."""


class VisitedStates:
    """States by the least cost at which a run has come to them."""

    def __init__(self) -> None:
        self._costs: dict[int, int] = {}
        """By state: the cost, and the number of the run that came there first at that cost."""
        self._spent = self._mark = 0
        self._runs = self._met = 0
        self._following = self._strange = False
        self._seen: list[Sequence[Option]] | None = None
        self._own: int | None = None
        """Number of places at which the run went on by itself."""

    def begin(self, spent: int, seen: list[Sequence[Option]] | None) -> None:
        """Begin a run whose choices have cost this much, and cost no more from here on.

        ``seen`` gets the options at each of its places: only those before it meets a state stay.
        """
        self._seen, self._own = seen, None
        self._runs += 1
        self._spent, self._mark = spent, spent << _RUN | self._runs
        self._following = False

    def meets(self, state: int) -> bool:
        """Note a state of this run; return whether the run can end there."""
        known = self._costs.get(state)
        if self._following:
            self._strange = known is None
            return self._strange
        if known is None or known >> _RUN > self._spent:
            self._costs[state] = self._mark
            return False
        if known == self._mark:
            return False
        self._met += 1
        self._own = len(self._seen) if self._seen is not None else 0
        self._following = self._met % _FOLLOWED == 0
        return not self._following

    def end(self) -> None:
        """End a run.

        Raises:
            NotReducible: it came to a state that cannot be.
        """
        if self._seen is not None and self._own is not None:
            del self._seen[self._own :]
        if self._strange:
            raise NotReducible("from one state two runs went on in two ways")
