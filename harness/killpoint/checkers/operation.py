"""Something that a role asked of the target: when it began, and what came of it."""

from __future__ import annotations

import msgspec

from killpoint.history.event import Event


class Asked(msgspec.Struct):
    """The event of its beginning, and the one of its end."""

    began: Event
    ended: Event | None = None
    """None: it never came back."""

    @property
    def outcome(self) -> str:
        """Its outcome's word."""
        return self.ended.text("outcome") if self.ended else "never returned"

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.outcome == "ok"

    @property
    def error(self) -> str:
        """Its error's text."""
        return self.ended.text("error") if self.ended else ""

    @property
    def timeout(self) -> float | None:
        """Its own limit, seconds."""
        found = self.began.data.get("timeout")
        return float(found) if isinstance(found, (int, float)) else None

    @property
    def seconds(self) -> float:
        """How long it took; 0 if it never came back."""
        found = self.ended.data.get("s") if self.ended else None
        return float(found) if isinstance(found, (int, float)) else 0.0

    def events(self) -> list[Event]:
        """Its own, for evidence."""
        return [self.began, *([self.ended] if self.ended else [])]
