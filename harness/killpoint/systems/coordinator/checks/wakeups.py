"""C2 of a coordinator alone: a request to a paused engine brings all the others to its wave."""

from __future__ import annotations

import msgspec

from killpoint.verdict import Violation


class Told(msgspec.Struct, frozen=True):
    """Start of a wave that was sent to the engines."""

    wave: int
    excluded: int | None = None


class Heard(msgspec.Struct):
    """Messages sent after the request that had to be stepped."""

    engines: int
    asked: int
    """The engine that has the request."""
    told: list[Told] = []
    lines: list[str] = []
    """The whole course of events, as lines for people."""


def check_request_wakes_all(heard: Heard) -> Violation | None:
    """Check that each other engine was sent the start of a wave that it has not ended."""
    others = [rank for rank in range(heard.engines) if rank != heard.asked]
    deaf = [r for r in others if not any(each.excluded != r for each in heard.told)]
    if not deaf:
        return None
    cause = (
        f"a request at engine-{heard.asked} does not wake engine-{deaf[0]}, without which no"
        " all-reduce ends: the start before it was sent, and never answered"
    )
    return Violation("lost", cause)
