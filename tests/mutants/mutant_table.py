"""The mutants of the reference: what is broken, and the case that must catch it."""

from __future__ import annotations

from coordinator_mutants import COORDINATOR
from delivery_mutants import DELIVERY
from engine_mutants import ENGINE
from exposure_mutants import EXPOSURE
from group_mutants import GROUP
from mutant import Edit, Mutant
from pipe_mutants import PIPE
from pool_mutants import POOL
from queue_mutants import QUEUE
from ring_mutants import RING

__all__ = ["CANARY", "MUTANTS", "Edit", "Mutant"]

CANARY = Mutant(
    "canary",
    "R3/stream",
    ("lost",),
    (
        Edit(
            "queue/reader.py",
            "    def dequeue(\n        self,\n        timeout",
            "    def dequeue(self, *args: Any, **named: Any) -> Any:\n"
            "        if self._ring_reader.number == 5:\n"
            "            self._take_one(*args, **named)\n"
            "        return self._take_one(*args, **named)\n\n"
            "    def _take_one(\n        self,\n        timeout",
        ),
    ),
)
"""Loses one message in silence. If a check of it passes, nothing that passes can be believed."""

MUTANTS: tuple[Mutant, ...] = (
    *(*RING, *DELIVERY, *GROUP, *QUEUE, *EXPOSURE),
    *(*POOL, *PIPE, *COORDINATOR, *ENGINE, CANARY),
)
