"""The kill matrix of SPEC W3: what each fault, in each phase of a worker pool, must lead to.

A cell is (victim, phase, harm). Of the executor, the phase is that in which its workers are when
it is struck. Each of the workers is struck in turn; what is owed does not depend on its rank.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Victim = Literal["executor", "worker"]
Phase = Literal[
    "constructing",
    "loading",
    "handshake",
    "idle",
    "reading",
    "computing",
    "native",
    "collective",
    "replying",
    "replying-overflow",
    "output-thread",
    "grace",
    "stopping",
]
"""``constructing`` is before anything was loaded; ``handshake`` from the end of loading until the
first request is awaited; ``grace`` while a busy worker is given time to leave; ``stopping`` while
workers leave."""
Harm = Literal["kill", "sigterm", "sigint", "stop", "exit", "raise"]
Ending = Literal[
    "start-fails",
    "start-or-pool-fails",
    "pool-fails",
    "fails-or-serves",
    "call-fails",
    "call-or-pool-fails",
    "deadline",
    "stops-in-time",
    "workers-gone",
    "unaffected",
    "start-undone",
    "not-applicable",
]

VICTIMS: tuple[Victim, ...] = get_args(Victim)
PHASES: tuple[Phase, ...] = get_args(Phase)
HARMS: tuple[Harm, ...] = get_args(Harm)

MEANING: dict[Ending, str] = {
    "start-fails": "the start raises within 2 s, with the worker's own traceback or its death;"
    " nothing of the pool stays",
    "start-or-pool-fails": "the start raises within 2 s; if it had returned, the pool fails",
    "pool-fails": "every pending and later call errs within 2 s of the worker's end, the callback"
    " fires once, the pool ends",
    "fails-or-serves": "the worker leaves, and all is as after a death; or it stays, and every"
    " call is served",
    "call-fails": "that call errs within 2 s, with the worker's own words; the pool goes on",
    "call-or-pool-fails": "that call errs; then the pool goes on, or has failed and says so",
    "deadline": "a call with a deadline ends at it; once the worker goes on, so does service,"
    " without a stale reply; a start with a deadline ends at it",
    "stops-in-time": "the shutdown ends within its grace + 5 s, and every worker is gone",
    "workers-gone": "the executor ends, and within 5 s so have its workers and their children",
    "unaffected": "every call has its own value, or ends at its own deadline; nobody is lost",
    "start-undone": "the start raises, and within 5 s its workers are gone; the next one works",
    "not-applicable": "there is nothing to strike",
}
"""Meaning of each ending, in one sentence."""

JUDGED_BY: dict[Ending, str] = {
    "start-fails": "W7",
    "start-or-pool-fails": "W3",
    "pool-fails": "W3",
    "fails-or-serves": "W3",
    "call-fails": "W6",
    "call-or-pool-fails": "W6",
    "deadline": "W5",
    "stops-in-time": "W5",
    "workers-gone": "W4",
    "unaffected": "W5",
    "start-undone": "W10",
}
"""The invariant that an ending belongs to."""


class Cell(msgspec.Struct, frozen=True, order=True):
    """One combination of victim, phase and harm."""

    victim: Victim
    phase: Phase
    harm: Harm

    def name(self) -> str:
        """Return a name such as ``worker/computing/kill``."""
        return f"{self.victim}/{self.phase}/{self.harm}"


class Expected(msgspec.Struct, frozen=True):
    """The answer to it."""

    ending: Ending
    why: str = ""
    """Reason why there is nothing to strike, or why the target is left a choice."""


_OFTEN_IGNORED = (
    "a terminal sends SIGINT to the whole process group: some pools leave it to the executor"
)
_ANYWHERE = "an exception between two lines of the target's own loop may end it, or be told"
_UNREADABLE = "a request that cannot be read may be answered, or end the worker"
_CUT_SHORT = "a call that an exception left behind may be forgotten, or end the pool"
_NO_CALL = "no call is under way in the executor whose code an exception could strike"
_BUSY = "calls that were pending may have their value by then"


def _worker(death: Ending, stop: Ending, struck: Ending, sigint: Ending, why: str = "") -> _Row:
    """A death is a death, however it comes: SIGKILL, an exit, SIGTERM obeyed."""
    ending = Expected(death)
    return {
        "kill": ending,
        "sigterm": ending,
        "sigint": Expected(sigint, _OFTEN_IGNORED if sigint == "fails-or-serves" else ""),
        "stop": Expected(stop),
        "exit": ending,
        "raise": Expected(struck, why),
    }


def _executor(stop: Ending, struck: Ending, why: str = "") -> _Row:
    """Return the row for an executor: its end, of whatever kind, ends its workers."""
    ending = Expected("workers-gone")
    return {
        "kill": ending,
        "sigterm": ending,
        "sigint": ending,
        "stop": Expected(stop, _BUSY if stop == "unaffected" else ""),
        "exit": ending,
        "raise": Expected(struck, why),
    }


_Row = dict[Harm, Expected]

_SERVING: tuple[Phase, ...] = ("reading", "computing", "native", "collective")
_ANSWERING: tuple[Phase, ...] = ("replying", "replying-overflow", "output-thread")
_ENDING: tuple[Phase, ...] = ("grace", "stopping")

_WORKER: dict[Phase, _Row] = {
    "constructing": _worker("start-fails", "deadline", "start-fails", "fails-or-serves"),
    "loading": _worker("start-fails", "deadline", "start-fails", "fails-or-serves"),
    "handshake": _worker(
        "start-or-pool-fails", "deadline", "start-or-pool-fails", "fails-or-serves"
    ),
    "idle": _worker("pool-fails", "deadline", "fails-or-serves", "fails-or-serves", _ANYWHERE),
    **{
        phase: _worker("pool-fails", "deadline", "call-fails", "fails-or-serves")
        for phase in (*_SERVING, *_ANSWERING)
    },
    "reading": _worker(
        "pool-fails", "deadline", "call-or-pool-fails", "fails-or-serves", _UNREADABLE
    ),
    **{
        phase: _worker("stops-in-time", "stops-in-time", "stops-in-time", "stops-in-time")
        for phase in _ENDING
    },
}

_EXECUTOR: dict[Phase, _Row] = {
    "constructing": _executor("unaffected", "start-undone"),
    "loading": _executor("unaffected", "start-undone"),
    "handshake": _executor("unaffected", "start-undone"),
    "idle": _executor("unaffected", "not-applicable", _NO_CALL),
    **{
        phase: _executor("unaffected", "call-or-pool-fails", _CUT_SHORT)
        for phase in (*_SERVING, *_ANSWERING)
    },
    **{phase: _executor("stops-in-time", "stops-in-time") for phase in _ENDING},
}

_ROWS: dict[Victim, dict[Phase, _Row]] = {"executor": _EXECUTOR, "worker": _WORKER}

MATRIX: dict[Cell, Expected] = {
    Cell(victim, phase, harm): _ROWS[victim][phase][harm]
    for victim in VICTIMS
    for phase in PHASES
    for harm in HARMS
}
"""Expected ending of every cell."""


def cells(*endings: Ending, victim: Victim | None = None) -> list[Cell]:
    """The cells that end so, in the order of the matrix."""
    return [
        cell
        for cell, expected in MATRIX.items()
        if expected.ending in endings and victim in (None, cell.victim)
    ]
