"""Targets whose module breaks the harness as it is imported: it cannot tell what was received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipe_queue import PipeTarget

from killpoint.runner import payload

if TYPE_CHECKING:
    from killpoint.targets.protocol import Capability

payload.identify = None  # type: ignore[assignment] # the harness fails where it calls it


class Queue(PipeTarget):
    """A queue like the other one; what it delivers is never looked at."""

    capabilities: frozenset[Capability] = frozenset(("queue", "deadlines"))
