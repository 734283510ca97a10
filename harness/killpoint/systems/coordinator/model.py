"""Model of what a front end may be told of a rank's counts and of the number of ranks (SPEC C7).

The coordinator takes what a rank tells in order, and tells each front end in order of what it has
taken, though not of each change. It may forget the counts of a rank that is gone or out of range,
and then tells of none, or of zeros, until it takes new ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

Counts = tuple[int, int]
IDLE: Counts = (0, 0)
_CROSSED = 500_000_000
"""ns within which what two links of one rank told may be taken in either order."""


class Told(msgspec.Struct):
    """Counts that a rank told."""

    since: int
    """Time from which on they may be published, ns."""
    role: str
    counts: Counts
    known: int = 1 << 62
    """Time at which some front end had heard of them, or of later ones of that rank."""


class RankCounts:
    """Counts of a rank that one link of a front end may be told, publication after publication."""

    def __init__(
        self, told: Sequence[Told], forgotten: Sequence[tuple[int, int]], asked: int
    ) -> None:
        """Begin with a link that was made after ``asked``.

        ``forgotten``: times in which what the rank told before, or tells then, may be forgotten.
        """
        self._told = told
        self._forgotten = forgotten
        self._last = max((n for n, each in enumerate(told) if each.known < asked), default=-1)
        self._first = 0
        """Index of the first counts that have not been forgotten."""
        self._blank = self._last < 0
        """True if nothing need be known of the rank."""

    def hear(self, t: int, counts: Counts | None) -> str:
        """Take what a publication says at a time; return why it cannot say that, or nothing."""
        if counts is None:
            lost = max((begin for begin, _ in self._forgotten if begin <= t), default=0)
            known = [n for n, each in enumerate(self._told) if each.known < lost]
            self._first, self._blank = max([self._first, *(n + 1 for n in known)]), True
            return ""
        same = [n for n, each in enumerate(self._told) if each.counts == counts and each.since <= t]
        for n in same:
            if n >= self._first and (n >= self._last or self._crossed(n)):
                self._last, self._blank = max(self._last, n), False
                return ""
        if counts == IDLE and (self._blank or self._is_forgotten(t)):
            return ""
        if not same:
            return "which nobody told"
        told = "it was gone" if same[-1] < self._first else "others that had been heard"
        return f"which it had told before {told}"

    def _crossed(self, n: int) -> bool:
        """Return whether these counts may have been taken after those heard last."""
        one, last = self._told[n], self._told[self._last]
        return one.role != last.role and last.since - one.since < _CROSSED

    def _is_forgotten(self, t: int) -> bool:
        """Return whether the counts heard last may have been forgotten by then."""
        since = self._told[self._last].since
        return any(begin <= t and since <= end for begin, end in self._forgotten)


class Sizes:
    """Number of ranks as one link of a front end may be told it."""

    def __init__(self, first: int, scaled: Sequence[tuple[int, int]]) -> None:
        """Begin with a coordinator of so many ranks; ``scaled``: (time, number) of each change."""
        self._sizes = [(0, first), *scaled]
        self._last = 0

    def hear(self, t: int, size: int) -> bool:
        """Take the number that a publication has at a time; return whether it can be."""
        for n in range(self._last, len(self._sizes)):
            since, number = self._sizes[n]
            if since <= t and number == size:
                self._last = n
                return True
        return False
