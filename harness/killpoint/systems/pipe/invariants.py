"""Invariants of a KV pipe and its blocks: K and H4."""

from __future__ import annotations

from killpoint.invariant import Invariant

_PIPE = ("pipe",)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "K1",
        "Every dtype, shape (zero-size, without dimensions, 14 dimensions), layout and None"
        " arrives bit-equal, in order.",
        _PIPE,
        {"cases": 5, "tensors": 250},
    ),
    Invariant(
        "K2",
        "A pipe's buffer returns to zero after every outcome; a tensor larger than the limit passes"
        " when the buffer is empty; memory is bounded by the limit and one tensor per sending"
        " thread.",
        _PIPE,
        {"cases": 4, "looks": 5},
    ),
    Invariant(
        "K3",
        "A send error surfaces at the sender (next call or close) and at the receiver.",
        _PIPE,
        {"cases": 2, "failures": 4},
    ),
    Invariant(
        "K4",
        "A peer killed at any instant: an error within 2 s (CPU), 10 s (CUDA); close returns.",
        ("pipe", "points"),
        {"cases": 6, "deaths": 12},
        bound="2 s, 10 s with CUDA, whose contexts take seconds to be torn down",
    ),
    Invariant(
        "K5",
        "The bytes that arrive are those at the send, whatever the caller does next.",
        _PIPE,
        {"cases": 2, "overwritten": 12},
    ),
    Invariant(
        "K6",
        "Hostile metadata is refused before allocation.",
        _PIPE,
        {"cases": 4, "lies": 6},
    ),
    Invariant(
        "K7",
        "Traffic in both directions at once, receives posted first on both sides included, never"
        " deadlocks.",
        _PIPE,
        {"cases": 3, "directions": 6},
    ),
    Invariant(
        "K8",
        "Blocks: a lost, repeated, late, stale or mismatched block is failed, never served; no"
        " bytes of another request; no read after free; each transfer ends by its lease.",
        ("pipe", "blocks"),
        {"cases": 6, "transfers": 12},
    ),
    Invariant(
        "H4",
        "What the ranks of a pipe see with many calls under way could have been: its history is one"
        " of the specification's, however requests, leases, waits and ends overlap.",
        ("pipe", "deadlines"),
        {"cases": 3, "transfers": 10, "tensors": 5, "operations": 80},
    ),
)
