"""Invariants of a worker pool: W and H3."""

from __future__ import annotations

from killpoint.invariant import Invariant

_POOL = ("pool",)
_STRUCK = ("pool", "points")

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "W1",
        "A pool is starting, ready, running, failed, stopping or stopped; forward only, and each"
        " life ends.",
        _POOL,
        {"cases": 3, "states": 10},
    ),
    Invariant(
        "W2",
        "A reply belongs to its call: after a timed-out, failed, refused or abandoned call, no"
        " later call receives its reply.",
        _POOL,
        {"cases": 4, "late replies possible": 8},
    ),
    Invariant(
        "W3",
        "A worker killed at any instant: every pending and later call errs within 2 s (not after"
        " grace periods), the callback fires once, the pool ends. What each phase and fault lead"
        " to is a table: the kill matrix.",
        _STRUCK,
        {"cases": 6, "deaths": 12},
        bound="2 s: a request that waits for a dead worker is retried elsewhere before its user"
        " gives up; grace periods for other workers need not delay the error",
    ),
    Invariant(
        "W4",
        "The parent killed at any instant: workers and their children are gone within 5 s, under"
        " each start method, also when loading a model or busy in native code.",
        _STRUCK,
        {"cases": 5, "deaths": 8},
    ),
    Invariant(
        "W5",
        "A stopped or spinning worker: a call with a deadline ends at it, also when the broadcast"
        " queue is full; shutdown ends within its grace + 5 s.",
        _STRUCK,
        {"cases": 5, "deadlines": 4},
    ),
    Invariant(
        "W6",
        "A method that raises, returns what cannot be pickled, raises in the output thread, calls"
        " sys.exit, or floods past the overflow boundary, on any rank, replying or not: the caller"
        " gets the error or the value, and the pool goes on. A SIGTERM during it is still obeyed.",
        _POOL,
        {"cases": 6},
    ),
    Invariant(
        "W7",
        "A failure at start reports that worker's own traceback.",
        _STRUCK,
        {"cases": 3},
        bound="10 s beyond what the failed start itself took: who starts an engine waits for"
        " the traceback",
    ),
    Invariant(
        "W8",
        "Non-blocking calls resolve in order; shutdown resolves every outstanding future with an"
        " error.",
        _POOL,
        {"cases": 3, "futures": 10},
    ),
    Invariant(
        "W9",
        "All of this under spawn, fork and forkserver, with 1 and several workers; no process"
        " holds another's pipe ends.",
        _POOL,
        {"cases": 4, "processes looked at": 10},
    ),
    Invariant(
        "W10",
        "Service returns: after any of these, a new pool on the same devices starts and works.",
        _STRUCK,
        {"cases": 4, "next pools": 4},
    ),
    Invariant(
        "H3",
        "What an executor sees of a pool with many calls under way could have been: its history is"
        " one of the specification's, however calls, futures and deadlines overlap.",
        _POOL,
        {"cases": 1, "replies": 80, "operations": 80},
    ),
)
