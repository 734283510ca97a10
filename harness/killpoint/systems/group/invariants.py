"""Invariants of a process group: G and H2."""

from __future__ import annotations

from killpoint.invariant import Invariant

_GROUP = ("group",)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "G1",
        "Each (sender, receiver) pair has its own order, first in, first out; broadcasts are seen"
        " once by every rank, in order; gathers come in rank order.",
        _GROUP,
        {"cases": 6, "messages": 300},
    ),
    Invariant(
        "G2",
        "The group's store does not grow with the number of messages.",
        _GROUP,
        {"cases": 2, "windows": 20},
    ),
    Invariant(
        "G3",
        "A barrier with a dead or absent rank fails on every rank within its own timeout, naming"
        " the rank.",
        _GROUP,
        {"cases": 5, "barriers": 8},
    ),
    Invariant(
        "G4",
        "A clean leave right after an operation that completed harms nobody, the host of the"
        " group included; the host killed: every rank gets an error that names it within 2 s. Of a"
        " rank cut off for longer than the silence all are told, and of whom; a shorter cut loses"
        " nothing.",
        _GROUP,
        {"cases": 10, "runs": 12, "told": 6},
        bound="2 s: as for a queue (Q6)",
    ),
    Invariant(
        "G5",
        "Nothing in a group depends on the wall clock; hosts may be IPv4 or IPv6.",
        _GROUP,
        {"cases": 3, "jumps": 4},
    ),
    Invariant(
        "H2",
        "What many ranks see of a group at once could have been: its history is one of the"
        " specification's, however sends, receives, deadlines and collective calls overlap.",
        ("group", "deadlines"),
        {"cases": 1, "messages": 60, "overlapping pairs": 100},
    ),
)
