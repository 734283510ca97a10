"""Steps of the executor of a worker pool, and the phases that its calls pass through."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from killpoint.systems.step import Seconds, Size, Step, Times

PoolVerb = Literal["pool-start", "call", "submit", "result", "health", "stop"]
"""Operations of the executor in which a fault can be placed at a line."""
WorkerVerb = Literal["start", "serve"]
"""Operations of a worker, likewise: ``start``, from the end of its loading to its first method, and
``serve``, from a method's end to the next one's begin."""

WorkerPhase = Literal[
    "constructing",
    "loading",
    "reading",
    "computing",
    "native",
    "collective",
    "spinning",
    "replying",
    "replying-overflow",
    "leaving",
]
"""Phase of a worker: being made, its model loaded, a request unpickled, inside a method, its reply
pickled (by whichever thread does it), leaving cleanly."""
ExecutorPhase = Literal["asking", "hearing"]
"""Phase of the executor: a request pickled, a reply unpickled."""
WORKER_PHASES: tuple[str, ...] = get_args(WorkerPhase)
EXECUTOR_PHASES: tuple[str, ...] = get_args(ExecutorPhase)

Method = Literal[
    "echo",
    "compute",
    "native",
    "collective",
    "raise_error",
    "unpicklable",
    "unreadable",
    "heavy",
    "slow",
    "function",
    "leave",
    "flood",
    "spin",
]
"""What a worker can be asked: see :class:`killpoint.systems.pool.worker_class.PoolWorker`.

``function``: the call sends a function by value, which holds the call's number.
"""

SLOW = 0.1
"""Seconds that the method ``slow`` waits before it replies."""

Rank = Annotated[int, msgspec.Meta(ge=0, le=1023)]


class PoolStart(Step, tag="pool-start"):
    """The executor starts the pool; it goes on once every worker is ready."""

    timeout: Seconds | None = None


class Call(Step, tag="call"):
    """The executor has all workers run a method, and waits for their replies."""

    method: Method = "echo"
    times: Times = 1
    size: Size = 64
    """Bytes of each reply's body, where the method has one."""
    rank: Rank | None = None
    """Rank of the only worker that replies; None: every one does."""
    timeout: Seconds | None = None
    keep_on: bool = False
    """Go on with the next call after one that failed."""


class Submit(Step, tag="submit"):
    """The executor has all workers run a method, and does not wait for their replies."""

    method: Method = "echo"
    times: Times = 1
    size: Size = 64
    rank: Rank | None = None


class Results(Step, tag="results"):
    """The executor takes the results of what it submitted, the oldest first."""

    count: Times | None = None
    """Number of results; None: all that are outstanding."""
    timeout: Seconds | None = None
    newest_first: bool = False
    keep_on: bool = True
    """Go on with the next one after one that failed."""


class Health(Step, tag="health"):
    """The executor checks the pool's health."""

    timeout: Seconds | None = None


class Execute(Step, tag="execute"):
    """The executor has all workers run a step of the model, and takes its one result.

    Each rank names the transfers that it has finished; ids may be used again.
    """

    sent: tuple[tuple[str, ...], ...]
    """Ids of the requests that each rank, in order, has finished sending."""
    received: tuple[tuple[str, ...], ...]
    """Ids of the requests that each rank has finished receiving."""
    output: bool = True
    """False: the rank that has the results has none in this step."""


class PoolStop(Step, tag="pool-stop"):
    """A clean shutdown; the executor keeps its end, and may stop it again."""


class NextPool(Step, tag="next-pool"):
    """The executor drops its end, and starts another pool on the same devices."""

    timeout: Seconds | None = None


Key = Literal["ctrl-c", "ctrl-z", "fg", "hang-up"]


class Press(Step, tag="press"):
    """A key is typed at the terminal that the executor is the foreground job of.

    Ctrl-C and Ctrl-Z reach every process of the job; ``fg`` has the shell bring it back;
    ``hang-up`` takes the terminal away. A process that has not seen the first of two keys sees them
    as one: put a ``wait-blocked`` between them.
    """

    key: Key


PoolStep = PoolStart | Call | Submit | Results | Health | Execute | PoolStop | NextPool | Press
