"""Invariants of a ring and queue: R, Q and H1."""

from __future__ import annotations

from killpoint.invariant import Invariant

_QUEUE = ("queue",)
_TIMED = ("queue", "deadlines")
_RING = ("queue", "ring")
_SLOTS = ("queue", "ring", "slots")
_KILLS = ("queue", "points")

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "R1",
        "Judged on store events: slots move only 1→1, 4→1, 1→2 by the writer, and 2→3, 3→3, 3→4"
        " (2→4 with one reader) by readers.",
        _SLOTS,
        {"cases": 2, "transitions": 200},
    ),
    Invariant("R2", "No torn read.", _QUEUE, {"cases": 2, "messages": 100}),
    Invariant(
        "R3",
        "Each reader gets messages 0, 1, 2, … once each, in order.",
        _QUEUE,
        {"cases": 1, "messages": 500},
    ),
    Invariant(
        "R4",
        "The writer never overwrites a slot that a live reader has not marked read; at most as"
        " many messages are outstanding as there are slots.",
        ("queue", "ring", "deadlines"),
        {"cases": 2, "messages": 30},
    ),
    Invariant(
        "R5",
        "R2 to R4 hold on weakly ordered memory, with slots reused at least twice (model only).",
        ("queue", "sim_memory"),
        {"cases": 4, "schedules": 20_000},
    ),
    Invariant(
        "R6",
        "Nothing handed to a caller aliases a slot once that slot is marked read.",
        _QUEUE,
        {"cases": 2, "messages": 20},
    ),
    Invariant(
        "R7",
        "An exception in the writer's fill publishes nothing; one in the reader's decode is"
        " raised once and the message consumed; other messages are untouched.",
        _RING,
        {"cases": 4},
    ),
    Invariant(
        "R8",
        "While the creator lives nobody else unlinks, a fork's copy included; at most one unlink"
        " in all; a missing or too small segment is a clear error at attach or first use.",
        _RING,
        {"cases": 4},
    ),
    Invariant(
        "R9",
        "An exception that arrives between any two steps leaves each operation wholly done or"
        " not done.",
        _KILLS,
        {"cases": 6, "exceptions": 60},
    ),
    Invariant(
        "Q1",
        "Every object and size on both sides of the overflow boundary arrives equal at every"
        " reader.",
        _QUEUE,
        {"cases": 4, "sizes": 400},
    ),
    Invariant(
        "Q2",
        "Inline and overflow messages keep one order; a failed or late overflow payload never"
        " shifts later ones.",
        _TIMED,
        {"cases": 3},
    ),
    Invariant(
        "Q3",
        "What arrives is what was enqueued, also when the caller changes the object right after"
        " enqueue returns.",
        _QUEUE,
        {"cases": 2, "messages": 10},
    ),
    Invariant(
        "Q4",
        "Format limits are judged before anything is published: carried correctly or refused,"
        " and the queue works on.",
        ("queue", "limits"),
        {"cases": 2},
    ),
    Invariant(
        "Q5",
        "No silent drop: a slow remote reader slows the writer or is told what it lost.",
        ("queue", "remote"),
        {"cases": 2, "messages": 100},
    ),
    Invariant(
        "Q6",
        "A writer that dies at any instant: each reader first gets every message already"
        ' published whole, then "peer died" within 2 s.',
        _KILLS,
        {"cases": 4, "runs": 30},
        bound="2 s: a supervisor that polls each second has acted by then, and it is below"
        " every timeout that engines set for a call (10 s and more)",
    ),
    Invariant(
        "Q7",
        "A reader that dies at any instant: the writer's pending or next call errs within 2 s,"
        " or, by policy, goes on with the others, who lose nothing.",
        _KILLS,
        {"cases": 3, "runs": 20},
        bound="2 s: a supervisor that polls each second has acted by then, and it is below"
        " every timeout that engines set for a call (10 s and more)",
    ),
    Invariant(
        "Q8",
        "No lost wake-up: an idle reader wakes for every publication within 100 ms.",
        _QUEUE,
        {"cases": 3, "wake-ups": 20, "schedules": 4_000},
        bound="100 ms: two decode steps of a large model; a reader that is woken needs less"
        " than one",
    ),
    Invariant(
        "Q9",
        "A deadline is honoured in every waiting state, never early; cancel or shutdown wakes"
        " every one within 100 ms.",
        ("queue", "deadlines", "cancel"),
        {"cases": 6},
    ),
    Invariant(
        "Q10",
        "wait_until_ready ends in success or a clear error by its deadline when a party dies"
        " before, during or after subscribing; a departure is not an arrival.",
        _QUEUE,
        {"cases": 3},
    ),
    Invariant(
        "Q11",
        "Closing, garbage collection (from a reference cycle too) and interpreter exit end"
        " within 2 s.",
        _QUEUE,
        {"cases": 4},
        bound="2 s: half of the 4 s that supervisors grant before they kill",
    ),
    Invariant(
        "Q12",
        "Memory is flat under a steady paced stream, for ever-busy readers too: private memory and"
        " mappings grow by less than 2 bytes a message (from 4 on that is a violation).",
        _QUEUE,
        {"cases": 3, "roles weighed": 9},
    ),
    Invariant(
        "Q13",
        "A queue object used from two threads at once delivers each message exactly once, or"
        " raises.",
        _QUEUE,
        {"cases": 4, "schedules": 3_000},
    ),
    Invariant(
        "Q14",
        "Every topology builds and works: only local, only remote, both; 1 … 64 readers; IPv4,"
        " IPv6.",
        _QUEUE,
        {"cases": 7},
    ),
    Invariant(
        "Q15",
        "A /dev/shm too small is an error at construction, not SIGBUS under load.",
        _QUEUE,
        {"cases": 3},
    ),
    Invariant(
        "Q16",
        "What was enqueued before a clean close, garbage collection or normal exit is delivered,"
        " or the reader's next dequeue raises with the number lost.",
        _QUEUE,
        {"cases": 4},
    ),
    Invariant(
        "Q17",
        "Unknown or duplicate ranks, a remote rank without a remote address, a second writer:"
        " errors, not surprises.",
        _QUEUE,
        {"cases": 5},
    ),
    Invariant(
        "Q18",
        "A remote party cut off without a goodbye is noticed within the configured silence; a cut"
        " shorter than that loses nothing.",
        ("queue", "remote", "wire", "deadlines"),
        {"cases": 5, "told": 3, "messages": 200},
    ),
    Invariant(
        "H1",
        "What many parties see of a queue at once could have been: its history is one of the"
        " specification's, however sends, receives, deadlines and deaths overlap.",
        _TIMED,
        {"cases": 2, "messages": 300, "overlapping pairs": 300},
    ),
)
