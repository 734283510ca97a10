"""Invariants of an engine: E1 to E4, which are asked of a server, too, and H6."""

from __future__ import annotations

from killpoint.invariant import Invariant

_ENGINE = ("engine",)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "E1",
        "Every request ends: with tokens, or with an error that names the cause.",
        _ENGINE,
        {"cases": 2, "requests": 60},
        instead="server",
    ),
    Invariant(
        "E2",
        "Greedy tokens equal those of the model run alone: with one worker, tensor-parallel,"
        " data-parallel, prefill and decode apart, and through the death of any process but the"
        " front end.",
        _ENGINE,
        {"cases": 4, "answers": 60, "through a fault": 1},
        instead="server",
    ),
    Invariant(
        "E3",
        "Faults are survived: with one replica killed, requests elsewhere succeed, those on it are"
        " retried or failed within 5 s, goodput is back to at least half within 10 s and whole once"
        " the replica restarted.",
        _ENGINE,
        {"cases": 2, "kills": 2},
        instead="server",
        then={"cases": 1, "kills": 1},
        bound="5 s and 10 s: what clients of an engine wait before they turn elsewhere",
    ),
    Invariant(
        "E4",
        "Health tells three things apart and never lies: alive, ready, making progress.",
        _ENGINE,
        {"cases": 2, "looks": 60, "stops": 2, "deaths": 1},
        instead="server",
    ),
    Invariant(
        "H6",
        "What many clients see of an engine at once could have been: each request ends once, with"
        " the tokens that the model alone gives, whoever else asks, cancels, uses an id again or"
        " fills the cache; and what a request held that has ended is free for the next one.",
        _ENGINE,
        {"cases": 2, "requests": 80, "cancelled": 20, "operations": 80, "overlapping pairs": 200},
    ),
)
