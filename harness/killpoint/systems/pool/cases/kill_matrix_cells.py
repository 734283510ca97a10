"""Stories of the kill matrix's cells: the way to the phase, the fault, and what follows."""

from __future__ import annotations

import msgspec

from killpoint.scenario import (
    AnyStep,
    Call,
    Fault,
    FaultName,
    Method,
    NextPool,
    Pause,
    Point,
    PoolStart,
    PoolStop,
    Scenario,
    Submit,
    Wait,
    WaitBlocked,
)
from killpoint.systems.pool.cases.builders import (
    GRACE,
    HANG_AFTER_S,
    LONG,
    OVERFLOW,
    REACHES_POINT_WITHIN_S,
    SHORT,
    START_POOL,
    STOP_POOL,
    TWO_CALLS,
    PoolStartMethod,
    pool_scenario,
)
from killpoint.systems.pool.kill_matrix import MATRIX, Cell, Harm, Phase

_METHODS: dict[Phase, Method] = {
    "reading": "echo",
    "computing": "compute",
    "native": "native",
    "collective": "collective",
    "replying": "echo",
    "replying-overflow": "flood",
    "output-thread": "echo",
}
"""Method that is called to bring workers to a phase."""
STARTING: tuple[Phase, ...] = ("constructing", "loading", "handshake")
"""Phases of the start."""
_STANDS = 0.3
"""Seconds that a stopped executor stands."""
_STRUCK_WITHIN = 4.0
"""Seconds of grace in which a role is to be struck: on a slow machine it must not be over before.
No role waits for its end, except for that of a worker that is stopped."""
_STOPPED_WITHIN = 1.0
_COMPUTING = Point("work", name="computing")
_REPLYING = Point("work", name="replying")


class Struck(msgspec.Struct, frozen=True):
    """Cell of the matrix, and the choices that it leaves open: rank, start method, line."""

    cell: Cell
    rank: int = 0
    start: PoolStartMethod = "default"
    line: int = 0
    """Line of the handshake, or of the worker's code between two calls."""
    workers: int = 2

    @property
    def worker(self) -> str:
        """The worker that is struck, or whose phase it is."""
        return f"worker-{self.rank}"

    def at(self) -> Point:
        """Return the point at which the worker is in the phase."""
        phase = self.cell.phase
        if phase == "handshake":
            return Point("start", line=self.line)
        if phase == "idle":
            return Point("serve", line=self.line)
        return _POINTS[phase]

    def how(self) -> PoolStartMethod:
        """A reduction needs torch, which forked workers find imported."""
        plain = self.cell.phase == "collective" and self.start == "default"
        return "fork" if plain else self.start

    def scenario(self, id: str) -> Scenario:
        """The whole story."""
        steps = _of_worker(self) if self.cell.victim == "worker" else _of_executor(self)
        return pool_scenario(
            id,
            *steps,
            expects=MATRIX[self.cell].ending,
            workers=self.workers,
            start=self.how(),
            grace=_grace(self.cell),
            output_thread=self.cell.phase == "output-thread",
        )


def _grace(cell: Cell) -> float:
    """Return the seconds that a worker has to leave, before SIGTERM and after it."""
    in_time = cell.phase == "grace" or (cell.phase == "stopping" and cell.victim == "executor")
    if not in_time:
        return GRACE
    return _STOPPED_WITHIN if cell.victim == "worker" and cell.harm == "stop" else _STRUCK_WITHIN


_POINTS: dict[Phase, Point] = {
    "constructing": Point("work", name="constructing"),
    "loading": Point("work", name="loading"),
    "reading": Point("work", name="reading"),
    "computing": _COMPUTING,
    "native": Point("work", name="native"),
    "collective": Point("work", name="collective"),
    "replying": _REPLYING,
    "replying-overflow": Point("work", name="replying-overflow"),
    "output-thread": _REPLYING,
    "grace": _COMPUTING,
    "stopping": Point("work", name="leaving"),
}


def needs_line(cell: Cell) -> bool:
    """Return whether the cell is struck at one of the target's own lines."""
    if cell.phase == "handshake":
        return True
    return cell.victim == "worker" and cell.phase == "idle" and cell.harm in ("exit", "raise")


def _asks(struck: Struck, timeout: float | None) -> Call:
    phase = struck.cell.phase
    size = OVERFLOW if phase == "replying-overflow" else 64
    return Call(_METHODS[phase], size=size, timeout=timeout)


# -- a worker is struck -----------------------------------------------------------------------


def _of_worker(struck: Struck) -> list[AnyStep]:
    phase, harm = struck.cell.phase, struck.cell.harm
    fault = Fault(harm, struck.worker, struck.at())
    if phase in STARTING:
        return _start_of(struck, fault)
    if phase == "grace":
        return _grace_of(struck)
    if phase == "stopping":
        return [*START_POOL, *TWO_CALLS, fault, *STOP_POOL]
    if phase == "idle":
        if needs_line(struck.cell):
            return [*START_POOL, fault, *TWO_CALLS, *STOP_POOL]
        strike: list[AnyStep] = [*START_POOL, *TWO_CALLS, Fault(harm, struck.worker)]
        return [*strike, *_afterwards(struck, Call(timeout=SHORT if harm == "stop" else None))]
    # The call has no deadline of its own where it must be told of what happened.
    limit = SHORT if harm == "stop" else LONG if harm in ("raise", "sigint") else None
    return [*START_POOL, fault, *_afterwards(struck, _asks(struck, limit))]


def _afterwards(struck: Struck, call: Call) -> list[AnyStep]:
    on: list[AnyStep] = [call, Wait(within=HANG_AFTER_S + LONG)]
    if struck.cell.harm == "stop":
        on.append(Fault("continue", struck.worker))
    return [*on, *TWO_CALLS, *STOP_POOL]


def _start_of(struck: Struck, fault: Fault) -> list[AnyStep]:
    if struck.cell.harm != "stop":
        return [fault, *START_POOL, *TWO_CALLS, *STOP_POOL]
    # One that is stopped after its word went out is missed by the first call.
    given = 12.0 if struck.start in ("spawn", "forkserver") else 6.0
    tried: list[AnyStep] = [PoolStart(timeout=given), Wait(within=HANG_AFTER_S + given)]
    called: list[AnyStep] = [Call(timeout=SHORT), Wait(within=HANG_AFTER_S)]
    return [fault, *tried, *called, Fault("continue", struck.worker), *TWO_CALLS, *STOP_POOL]


def _grace_of(struck: Struck) -> list[AnyStep]:
    """A worker is busy when the pool is asked to stop; a fault of its own acts as it goes on."""
    worker, harm = struck.worker, struck.cell.harm
    busy: list[AnyStep] = [
        Submit("compute"),
        WaitBlocked((worker,)),
        PoolStop(),
        WaitBlocked(("executor",)),
    ]
    held = Fault("hold", worker, _COMPUTING)
    ends: list[AnyStep] = [Wait(within=HANG_AFTER_S)]
    if harm in ("exit", "raise"):
        placed = Fault(harm, worker, _COMPUTING)  # an answer may not be given any more
        return [*START_POOL, held, placed, *busy, Fault("continue", worker), *ends]
    return [*START_POOL, held, *busy, Fault(harm, worker), *ends]


# -- the executor is struck -------------------------------------------------------------------


def _of_executor(struck: Struck) -> list[AnyStep]:
    phase = struck.cell.phase
    hold = Fault("hold", struck.worker, struck.at())
    there = WaitBlocked((struck.worker,), within=REACHES_POINT_WITHIN_S)
    if phase in STARTING:
        return [hold, PoolStart(timeout=20.0), there, *_harm(struck)]
    if phase == "idle":
        return [*START_POOL, *TWO_CALLS, *_harm(struck)]
    if phase == "grace":
        return [*START_POOL, hold, Submit("compute"), there, *_stopping(struck)]
    if phase == "stopping":
        return [*START_POOL, *TWO_CALLS, hold, PoolStop(), there, *_harm(struck)]
    return [*START_POOL, hold, _asks(struck, 20.0), there, *_harm(struck)]


def _stopping(struck: Struck) -> list[AnyStep]:
    return [PoolStop(), WaitBlocked(("executor",)), *_harm(struck)]


def _harm(struck: Struck) -> list[AnyStep]:
    """Return the fault to the executor while its worker stands, and the steps that follow."""
    phase, harm = struck.cell.phase, struck.cell.harm
    on = Fault("continue", struck.worker)
    ended: list[AnyStep] = [Wait(("executor",), within=HANG_AFTER_S)]
    if harm == "stop":
        stands: list[AnyStep] = [Fault("stop", "executor"), Pause(_STANDS)]
        goes = [Fault("continue", "executor"), *([] if phase == "idle" else [on])]
        if phase in ("grace", "stopping"):
            return [*stands, *goes, Wait(within=HANG_AFTER_S)]
        return [*stands, *goes, Wait(within=30.0), *TWO_CALLS, *STOP_POOL]
    if harm == "raise":
        struck_out: list[AnyStep] = [Fault("interrupt", "executor")]
        if phase in STARTING:
            return [*struck_out, *ended, on, NextPool(timeout=20.0), Wait(within=30.0), *TWO_CALLS]
        if phase in ("grace", "stopping"):
            return [*struck_out, *ended, on, *STOP_POOL]
        return [*struck_out, *ended, on, *TWO_CALLS, *STOP_POOL]
    return [Fault(_SENT[harm], "executor")]


_SENT: dict[Harm, FaultName] = {
    "kill": "kill",
    "sigterm": "sigterm",
    "sigint": "sigint",
    "exit": "exit",
}
