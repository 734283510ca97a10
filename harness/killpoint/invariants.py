"""The catalogue: what is judged, under which id, how firmly, and how much evidence it takes."""

from __future__ import annotations

from typing import cast

from killpoint import extensions
from killpoint.errors import BadUsage
from killpoint.invariant import Invariant, Level

_QUEUE = ("queue",)
_TIMED = ("queue", "deadlines")
_RING = ("queue", "ring")
_SLOTS = ("queue", "ring", "slots")
_KILLS = ("queue", "points")
_GROUP = ("group",)
_POOL = ("pool",)
_STRUCK = ("pool", "points")
_PIPE = ("pipe",)
_WAVES = ("waves",)
_COORDINATOR = ("coordinator",)
_PROCESS = ("coordinator_process",)
_ENGINE = ("engine",)
_SERVER = ("server",)

_OURS: tuple[Invariant, ...] = (
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
        "S1",
        "Nothing listens wider than asked for; the default is loopback or ipc.",
        _QUEUE,
        {"cases": 3, "looks": 6},
        instead="server",
        then={"cases": 1, "looks": 4},
    ),
    Invariant(
        "S2",
        "ipc paths, sockets and segments are their owner's alone, under any umask.",
        _QUEUE,
        {"cases": 2, "paths": 4},
        instead="server",
        then={"cases": 1, "paths": 1},
    ),
    Invariant(
        "S3",
        "A stranger who reaches a TCP port can neither read a message nor have one decoded; keys"
        " never appear in a repr, log, environment or command line.",
        _QUEUE,
        {"cases": 4},
        instead="server",
        then={"cases": 1},
    ),
    Invariant(
        "S4",
        "A stranger who floods, stalls or half-opens costs no message and no unbounded memory,"
        " descriptors or log, at every listener of the process tree, with 1,024 descriptors.",
        _QUEUE,
        {"cases": 1, "floods": 1},
    ),
    Invariant(
        "L1",
        "After the last party's exit + 5 s nothing of ours remains; only what every party's"
        " SIGKILL left behind may wait for the next start, which removes it.",
        _QUEUE,
        {"cases": 3, "plays": 5},
        instead="server",
    ),
)


def _added() -> tuple[Invariant, ...]:
    """Return the invariants of packages outside the tree.

    Raises:
        BadUsage: one has an id that there is already.
    """
    added = extensions.everything("checks", "INVARIANTS")
    for name in sorted(extensions.entries("systems")):
        added.append(vars(extensions.part(name, "invariants"))["INVARIANTS"])
    found = [item for items in added for item in cast("tuple[Invariant, ...]", items)]
    known = {item.id for item in _OURS}
    for item in found:
        if item.id in known:
            raise BadUsage(f"two invariants have the id {item.id}: {item.clause}")
        known.add(item.id)
    return tuple(found)


CATALOGUE: tuple[Invariant, ...] = (*_OURS, *_added())
"""Every clause, those that packages outside the tree add last."""
BY_ID = {invariant.id: invariant for invariant in CATALOGUE}


def invariant(id: str) -> Invariant:
    """The invariant with this id.

    Raises:
        BadUsage: there is none.
    """
    found = BY_ID.get(id)
    if found is None:
        raise BadUsage(f"unknown invariant {id!r}; expected one of: {', '.join(BY_ID)}")
    return found


def level_of(id: str, kind: str) -> Level:
    """Return the level of the clause that a violation of this kind breaks."""
    found = BY_ID.get(id)
    if found is None:
        return "MUST"
    return "SHOULD" if kind == "late" and found.bound else found.level
