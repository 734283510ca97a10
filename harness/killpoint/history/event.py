"""One line of a history."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct):
    """Something that happened in a role, or that the director did."""

    t: int
    """CLOCK_MONOTONIC, ns; one clock for all processes of a machine."""
    role: str
    kind: str
    """``begin`` and ``end`` of an order; ``send``, ``sent``, ``mutated``, ``receive``, ``got``,
    ``recheck``; of a steady stream ``streaming`` and ``streamed``; ``store``; ``segment``; of the
    director ``intent``, ``fault``, ``reached``, ``not-reached``, ``hang``, ``exit``, ``late-tick``,
    ``mapped``, ``room`` and ``weight``. Of a pool's worker
    ``worker-here``, ``phase``, ``serving``, ``served``, ``leaving``; of the director ``gone`` of a
    worker, and ``seen`` of one whose executor hangs. Those of its executor are told in
    :mod:`killpoint.stage.pool_acts`; of a terminal's shell ``job``, ``job-stopped``,
    ``job-continues``, ``job-ended``."""
    data: dict[str, object] = {}

    def text(self, key: str) -> str:
        """A field as text, empty if absent."""
        found = self.data.get(key)
        return "" if found is None else str(found)

    def number(self, key: str, default: int = -1) -> int:
        """A field as a whole number."""
        found = self.data.get(key)
        return found if isinstance(found, int) else default

    def line(self, start: int = 0) -> str:
        """The event as a line for people, time in ms since ``start``."""
        words = " ".join(
            f"{key}={value}" for key, value in self.data.items() if value not in (None, "")
        )
        return f"{(self.t - start) / 1e6:10.3f} ms  {self.role:<9} {self.kind:<9} {words}"
