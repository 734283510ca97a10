"""Invariants of a whole server: E5 to E10, and H7."""

from __future__ import annotations

from killpoint.invariant import Invariant

_SERVER = ("server",)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "E5",
        "No truncated answer passes for a whole one: what a fault of the server cut short ends with"
        " an error status, an error event, or a connection torn inside its body; not with status"
        " 200 and a finish reason, nor with a body that ends as HTTP says it should.",
        _SERVER,
        {"cases": 3, "answers": 30},
    ),
    Invariant(
        "E6",
        "SIGTERM: requests in flight finish or fail with an error within the drain that the server"
        " states (30 s where it states none), new ones get 503 or no connection, and the whole tree"
        " is gone within that drain + 10 s. During start too.",
        _SERVER,
        {"cases": 3, "signals": 3, "in flight": 12},
    ),
    Invariant(
        "E7",
        "The exit status tells a supervisor: not 0 if the service ended because a part of it died;"
        " after an orderly end 0, 128 + the signal asked for, or death by that signal.",
        _SERVER,
        {"cases": 3, "ends": 3},
    ),
    Invariant(
        "E8",
        "The front process gone by any signal: every process of the tree is gone within 10 s, with"
        " its ports; segments, sockets and files too where a survivor could remove them.",
        _SERVER,
        {"cases": 2, "deaths": 2},
        bound="10 s: how long a supervisor waits before it starts the next server on the same"
        " port and devices",
    ),
    Invariant(
        "E9",
        "A client that hangs up gives back its place and its blocks within 5 s; neither it nor one"
        " that stops reading costs anybody else an answer.",
        _SERVER,
        {"cases": 2, "hung up": 6, "answers": 24},
    ),
    Invariant(
        "E10",
        "A request that was refused, failed or aborted changes no later answer.",
        _SERVER,
        {"cases": 1, "answers": 12},
    ),
    Invariant(
        "H7",
        "What many clients see of a server at once could have been: each answer has the tokens, the"
        " end and the usage that its request has undisturbed, streamed or whole, wherever a stop"
        " string falls; and nobody's end, error or haste costs another one's.",
        _SERVER,
        {"cases": 1, "exchanges": 20, "completions": 20, "overlaps": 20},
    ),
)
