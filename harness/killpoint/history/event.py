"""One line of a history."""

from __future__ import annotations

from typing import cast

import msgspec


class Event(msgspec.Struct):
    """Something that happened in a role, or that the runner did."""

    t: int
    """CLOCK_MONOTONIC, ns; one clock for all processes of a machine."""
    role: str
    kind: str
    """Kind, one of those in docs/history.md, which also lists the fields of each."""
    data: dict[str, object] = {}

    def text(self, key: str) -> str:
        """A field as text, empty if absent."""
        found = self.data.get(key)
        return "" if found is None else str(found)

    def number(self, key: str, default: int = -1) -> int:
        """A field as a whole number."""
        found = self.data.get(key)
        return found if isinstance(found, int) else default

    def items(self, key: str) -> list[object]:
        """A field that is a list; empty if it is none."""
        found = self.data.get(key)
        return cast("list[object]", found) if isinstance(found, list) else []

    def line(self, start: int = 0) -> str:
        """The event as a line for people, time in ms since ``start``."""
        words = " ".join(
            f"{key}={value}" for key, value in self.data.items() if value not in (None, "")
        )
        return f"{(self.t - start) / 1e6:10.3f} ms  {self.role:<9} {self.kind:<9} {words}"
