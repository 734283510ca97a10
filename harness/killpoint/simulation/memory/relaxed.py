"""Relaxed store order: a task's stores become visible in any order, except those to one place.

As SPARC's partial store order, with full fences only. Loads stay in order.
"""

from __future__ import annotations

from killpoint.simulation.memory.tso import Buffered, TotalStoreOrder


class Relaxed(TotalStoreOrder):
    """Memory model that shows a missing fence between two stores of one task."""

    title = "relaxed store order"

    def _next_of(self, buffer: list[Buffered]) -> list[Buffered]:
        """Return each store that overlaps no older one of the task."""
        if len(buffer) == 1:
            return buffer[:]
        return [each for index, each in enumerate(buffer) if not _overlaps(each, buffer[:index])]


def _overlaps(store: Buffered, older: list[Buffered]) -> bool:
    at, end = store.at, store.end
    return any(each.at < end and at < each.end for each in older)
