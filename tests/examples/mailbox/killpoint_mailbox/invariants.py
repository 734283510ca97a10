"""What a mailbox promises."""

from __future__ import annotations

from killpoint.invariant import Invariant

INVARIANTS = (
    Invariant(
        "M1",
        "Every letter that was posted is taken once, in the order of its poster.",
        ("mailbox",),
        {"cases": 2, "letters": 8},
    ),
    Invariant(
        "M2",
        "The owner of a mailbox is told within 2 s that a poster has died.",
        ("mailbox",),
        {"cases": 1, "deaths": 1},
    ),
)
