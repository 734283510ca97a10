"""Relaxed store order: a task's stores may become visible in any order, but for those of a place.

As SPARC's partial store order, with full fences only. Loads stay in order.
"""

from __future__ import annotations

from killpoint.simulation.memory.tso import Entry, TotalStoreOrder


class Relaxed(TotalStoreOrder):
    """What is missing between two stores of one task shows here."""

    title = "relaxed store order"

    def _next_of(self, buffer: list[Entry]) -> list[Entry]:
        """Each store that overlaps no older one of the task."""
        free: list[Entry] = []
        for index, (at, content) in enumerate(buffer):
            end = at + len(content)
            if not any(s < end and at < s + len(c) for s, c in buffer[:index]):
                free.append((at, content))
        return free
