"""Overlap of operations: how much a history has at once."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from killpoint.history.event import Event

_NEVER = 1 << 62
"""End of an operation that never returned."""


def span(began: Event, ended: Event | None) -> tuple[int, int]:
    """Return the begin and the end of an operation, ns."""
    return began.t, ended.t if ended is not None else _NEVER


def overlap(spans: Iterable[tuple[int, int]]) -> dict[str, int]:
    """Return the number of operations, and of pairs of them that have a time in common."""
    ordered = sorted(spans)
    begins = [began for began, _ in ordered]
    pairs = sum(
        bisect.bisect_right(begins, ended) - index - 1 for index, (_, ended) in enumerate(ordered)
    )
    return {"operations": len(ordered), "overlapping pairs": pairs}
