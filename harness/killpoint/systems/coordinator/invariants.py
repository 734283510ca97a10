"""Invariants of a coordinator of replicas: C and H5."""

from __future__ import annotations

from killpoint.invariant import Invariant

_WAVES = ("waves",)
_COORDINATOR = ("coordinator",)
_PROCESS = ("coordinator_process",)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "C1",
        "The wave never decreases; front ends never lead the coordinator; an engine leads by at"
        " most one.",
        _WAVES,
        {"cases": 1, "orders' states": 5_000},
    ),
    Invariant(
        "C2",
        "No stranded request: any order and delay of messages, late subscribers included, ends"
        " with every accepted request stepped.",
        _COORDINATOR,
        {"cases": 2, "orders' states": 5_000},
    ),
    Invariant(
        "C3",
        "All replicas take the same number of collective steps in a wave; none waits in one longer"
        " than a bound.",
        _WAVES,
        {"cases": 1, "orders' states": 5_000},
    ),
    Invariant(
        "C4",
        "A malformed, unknown or out-of-range message is counted, logged and dropped alone; what"
        " else it carried that is valid is kept.",
        _PROCESS,
        {"cases": 3, "lies": 40},
    ),
    Invariant(
        "C5",
        "Clock jumps change no publication by more than one interval.",
        _PROCESS,
        {"cases": 2, "jumps": 2, "changes": 4},
        bound="one interval of publication: less cannot be told from a late one",
    ),
    Invariant(
        "C6",
        "Coordinator, engine or front end gone (killed, stopped, unsubscribed, cut off, during"
        " start too): noticed within 5 s, defined state, requests in flight failed or retried,"
        " never lost in silence.",
        _PROCESS,
        {"cases": 6, "noticed": 8},
        bound="5 s: the sign of life that front ends expect, once missed",
    ),
    Invariant(
        "C7",
        "Publication never starves: a change is heard within max(2 intervals, 250 ms) at any"
        " message rate.",
        _PROCESS,
        {"cases": 2, "changes": 10},
        bound="250 ms or two intervals: a front end that balances by older counts overloads one"
        " replica",
    ),
    Invariant(
        "H5",
        "What many peers see of a coordinator at once could have been: its history is one of the"
        " specification's, however front ends, ranks, waves and changes of their number overlap.",
        _PROCESS,
        {"cases": 2, "operations": 80, "overlapping pairs": 200},
    ),
)
