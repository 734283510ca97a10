"""Operations that a role asked of the target: when each began, and how it ended."""

from __future__ import annotations

import msgspec

from killpoint.history.event import Event


class Operation(msgspec.Struct):
    """Operation that a role asked of the target, with its begin and end events."""

    began: Event
    ended: Event | None = None
    """None if the operation never returned."""

    @property
    def outcome(self) -> str:
        """Outcome word of the operation, or ``never returned``."""
        return self.ended.text("outcome") if self.ended else "never returned"

    @property
    def ok(self) -> bool:
        """True if the operation ended with outcome ``ok``."""
        return self.outcome == "ok"

    @property
    def error(self) -> str:
        """Text of the operation's error; empty if there is none."""
        return self.ended.text("error") if self.ended else ""

    @property
    def timeout(self) -> float | None:
        """Timeout of the operation, seconds; None if it had none."""
        found = self.began.data.get("timeout")
        return float(found) if isinstance(found, (int, float)) else None

    @property
    def seconds(self) -> float:
        """Duration of the operation, seconds; 0 if it never returned."""
        found = self.ended.data.get("s") if self.ended else None
        return float(found) if isinstance(found, (int, float)) else 0.0

    def events(self) -> list[Event]:
        """Return the operation's events, as evidence."""
        return [self.began, *([self.ended] if self.ended else [])]
