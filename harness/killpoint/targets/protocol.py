"""The protocol between harness and target: a queue as a black box, and optional capabilities.

An adapter runs inside the role processes. It never judges: it calls the implementation, and
translates the implementation's exceptions into one of a few :data:`Outcome` words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any, Literal, Protocol, runtime_checkable

from killpoint.interfaces import SimulatedEnvironment
from killpoint.targets.shapes import GroupShape, PipeShape, PoolShape, QueueShape

Capability = Literal[
    "queue",
    "deadlines",
    "cancel",
    "limits",
    "remote",
    "wire",
    "silence",
    "ring",
    "slots",
    "points",
    "native",
    "group",
    "group_threads",
    "pool",
    "transfers",
    "pipe",
    "blocks",
    "cuda",
    "coordinator",
    "coordinator_process",
    "peer_watch",
    "waves",
    "engine",
    "server",
    "sim_memory",
    "sim_sockets",
    "clock",
]
"""Features that a target may offer (SPEC 10). Three words refine ``queue``: ``deadlines`` (send
and receive take a timeout), ``cancel`` (a second thread can wake a waiting call) and ``limits``
(the encoder's format limits can be set small). ``remote``: readers that are reached over TCP;
``silence``: how long a remote party may be silent can be set. ``group_threads``: a rank of its
process group may have calls under way at once, each in a thread of its own, that wait for different
things. ``transfers``: its pool
tells which transfers all ranks have finished. ``cuda``: its pipe carries tensors
on a GPU, where there is one. ``coordinator``: its data-parallel coordinator can be talked to
(:mod:`killpoint.targets.coordinator_messages`). ``coordinator_process``: it can be run as a process
(:mod:`killpoint.targets.coordinator_protocol`). ``peer_watch``: the parties of its coordinator
notice by themselves that one on their own machine has died; without it that is left to a supervisor
beside them. ``waves``: its wave protocol is there as pure state machines
(:mod:`killpoint.targets.waves`). ``native``: a part of its code is an extension module; it need not
be claimed (:mod:`killpoint.targets.native`). ``engine``: it is a whole engine
(:mod:`killpoint.targets.engine_protocol`). ``server``: it is started as a process tree, and asked
over HTTP (:mod:`killpoint.systems.server.program`). ``sim_memory``, ``sim_sockets`` and ``clock``:
its own code can be given simulated ones (:class:`Simulates`)."""

Outcome = Literal[
    "ok",
    "timeout",
    "peer-died",
    "closed",
    "lost",
    "cancelled",
    "busy",
    "refused",
    "failed",
    "error",
]
"""End of a call. ``busy``: another thread is inside the object; ``failed``: a worker's own error
was reported, and its pool lives on; ``error``: any other exception that the caller can act on."""

StoreSink = Callable[[int, int, int], AbstractContextManager[None]]
"""``with sink(slot, flag, value):`` around each store to a slot's flags: the store is made inside
the block, which holds a lock over all roles, so that the recorded order is the real one. Flag 0
is *written*, flag 1 + i belongs to reader i."""


class UnsupportedByTarget(Exception):
    """The target cannot do what was asked: the case is `unsupported`, never `held`."""


@runtime_checkable
class Preforks(Protocol):
    """Optional: the target's parts are forked from a process that imports what they need.

    Where no start is on trial, each role of the play makes that process by a fork of itself before
    it does anything else, in milliseconds: as in a program that has had such parts before.
    """

    def prefork_modules(self, system: str) -> Sequence[str]:
        """Return the names of the modules that it has imported; none: it is not made before."""
        ...

    def prefork(self, system: str) -> None:
        """Make it, in a process that has these modules imported, one thread and no part yet."""
        ...


class Target(Protocol):
    """An implementation under test, as the zygote and the roles see it.

    The nine methods below are the black box, capability ``queue``. ``end`` is what ``make``
    or ``attach`` returned; handles must survive :mod:`pickle`. Everything else is optional and
    declared in ``capabilities``: see :class:`Cancels`, :class:`HasWire`, :class:`HasRing`,
    :class:`HasSlots`, :class:`HasPoints`, :class:`HasGroup`, :class:`HasPool`,
    :class:`HasPipe`, :class:`HasBlocks`, and
    :class:`killpoint.targets.engine_protocol.HasEngine`. ``preloads``, a sequence of module names
    if there is such an attribute, says what roles are to find imported in place of torch; where a
    scenario has tensors they find torch all the same.
    """

    name: str
    version: str
    capabilities: frozenset[Capability]

    def load(self) -> None:
        """Import the implementation. Called once in the zygote, before any fork."""
        ...

    def make(self, shape: QueueShape) -> Any:
        """Make the writer's end of a new queue."""
        ...

    def handle(self, end: Any) -> Any:
        """Return what another process needs to attach."""
        ...

    def attach(self, handle: Any, rank: int) -> Any:
        """Make the end of reader ``rank``."""
        ...

    def ready(self, end: Any, timeout: float | None) -> None:
        """Do the collective handshake."""
        ...

    def send(self, end: Any, obj: Any, timeout: float | None) -> None:
        """Enqueue for every reader."""
        ...

    def receive(self, end: Any, timeout: float | None) -> Any:
        """Dequeue the next message."""
        ...

    def close(self, end: Any) -> None:
        """Close cleanly. The caller drops its own reference right after."""
        ...

    def classify(self, error: BaseException) -> Outcome:
        """Return the outcome that an exception of this implementation stands for."""
        ...


class BlackBox(Protocol):
    """The part of a target that a simulated world plays with: see :class:`Target`."""

    def make(self, shape: QueueShape) -> Any:
        """Make the writer's end of a new queue."""
        ...

    def handle(self, end: Any) -> Any:
        """Return what a reader attaches by."""
        ...

    def attach(self, handle: Any, rank: int) -> Any:
        """Make the end of reader ``rank``."""
        ...

    def send(self, end: Any, obj: Any, timeout: float | None) -> None:
        """Enqueue for every reader."""
        ...

    def receive(self, end: Any, timeout: float | None) -> Any:
        """Dequeue the next message."""
        ...


@runtime_checkable
class Simulates(Protocol):
    """Capabilities ``sim_memory``, ``sim_sockets``, ``clock``: simulated ones can be given.

    One hook for all three. With ``sim_memory`` the implementation's shared memory comes from
    ``environment.create`` and ``attach``, each of its fences calls ``fence`` and each of its idle
    looks ``spin``. With ``sim_sockets`` its sockets come from ``environment.sockets`` (None in a
    world without any: then only what needs no socket is asked for). With ``clock`` it asks ``now``
    for the time, and ``sleep`` to pass it. All other code of it is unchanged.
    """

    def simulated(self, environment: SimulatedEnvironment) -> AbstractContextManager[BlackBox]:
        """Run this process's copy of the implementation in the environment until it is left.

        A fresh queue is made and attached to for each run, outside of all tasks; ends of earlier
        runs are dropped without a word.
        """
        ...


@runtime_checkable
class Cancels(Protocol):
    """Capability ``cancel``: a second thread ends a call that waits on ``end``."""

    def cancel(self, end: Any) -> None:
        """Wake the calls that wait on this end; they raise (`cancelled`, `closed` or `error`)."""
        ...


@runtime_checkable
class HasWire(Protocol):
    """Capability ``wire``: the TCP addresses in a handle can be read and replaced.

    An address is ``host:port``, with an IPv6 host in brackets.
    """

    def addresses(self, handle: Any) -> list[str]:
        """Return every TCP address that a remote reader made from this handle connects to."""
        ...

    def rerouted(self, handle: Any, table: dict[str, str]) -> Any:
        """Return the handle with each address that is a key of the table replaced by its value."""
        ...

    def secrets(self, handle: Any) -> list[bytes]:
        """Return what in the handle must never be shown (S3); empty if it has no secret."""
        ...


@runtime_checkable
class HasGroup(Protocol):
    """Capability ``group``: a stateless process group (SPEC 4). Ends are what ``join`` gave.

    Timeouts are in seconds; None: the group's own default.
    """

    def join(
        self,
        shape: GroupShape,
        address: tuple[str, int],
        rank: int,
        secret: bytes,
        timeout: float | None,
    ) -> Any:
        """Become a member.

        Rank 0 listens at ``shape.host`` and the port in ``address``; the others connect to
        ``address``, which may be a relay's. ``secret``: 32 bytes that only members have, for
        groups that authenticate. ``timeout``: how long to wait for the others.
        """
        ...

    def group_send(self, end: Any, obj: Any, to: int) -> None:
        """Send to one rank."""
        ...

    def group_receive(self, end: Any, source: int, timeout: float | None) -> Any:
        """Return the next object from one rank; UnsupportedByTarget for an unsupported timeout."""
        ...

    def group_broadcast(self, end: Any, obj: Any, source: int, timeout: float | None) -> Any:
        """Return the source's ``obj``, at every rank; ``obj`` counts at the source only."""
        ...

    def group_gather(self, end: Any, obj: Any, timeout: float | None) -> list[Any]:
        """Return every rank's object, at every rank, in rank order."""
        ...

    def group_barrier(self, end: Any, timeout: float | None) -> None:
        """Return once every rank has called it."""
        ...

    def group_leave(self, end: Any) -> None:
        """Leave cleanly. The caller drops its own reference right after."""
        ...


@runtime_checkable
class CountsEntries(Protocol):
    """Beside ``group``, if it can be told: the number of entries in the group's store (G2)."""

    def group_entries(self, end: Any) -> int:
        """Return the number of entries in the store, over all ranks."""
        ...


@runtime_checkable
class HasPool(Protocol):
    """Capability ``pool``: a worker pool (SPEC 5). Ends are what ``pool_start`` gave.

    Everything is called in the executor's process, by its main thread. Timeouts are in seconds;
    None: the pool's own default.
    """

    def pool_start(self, shape: PoolShape, worker: str, timeout: float | None) -> Any:
        """Start the workers, and return once all of them are ready.

        ``worker``: ``module:Class``. The target makes one in each worker, as
        ``Class(rank, workers)``, calls ``init_device()`` and ``load_model()``, then methods by
        name, and ``shutdown()`` (if it has such a thing) as a worker leaves cleanly. A failure at
        start raises with that worker's own traceback in the text.
        """
        ...

    def pool_call(
        self,
        end: Any,
        method: str | Callable[..., Any],
        args: tuple[Any, ...],
        timeout: float | None,
        rank: int | None,
    ) -> Any:
        """Have all workers run it; return their values in rank order, or one rank's alone.

        ``method``: a name, or a function that gets the worker as its first argument.
        """
        ...

    def pool_submit(
        self, end: Any, method: str | Callable[..., Any], args: tuple[Any, ...], rank: int | None
    ) -> Any:
        """Have all workers run it, without waiting; return a future."""
        ...

    def pool_result(self, end: Any, future: Any, timeout: float | None) -> Any:
        """Return a future's value; UnsupportedByTarget for a timeout it cannot honour."""
        ...

    def pool_done(self, end: Any, future: Any) -> bool:
        """Return whether a future has a value or an error."""
        ...

    def pool_health(self, end: Any, timeout: float | None) -> None:
        """Return if all is well, or raise."""
        ...

    def pool_on_failure(self, end: Any, callback: Callable[[], None]) -> None:
        """Have ``callback`` called once, by any thread, when the pool has failed."""
        ...

    def pool_state(self, end: Any) -> str:
        """Return the state of W1 in lower case; empty if the target has no such states."""
        ...

    def pool_pids(self, end: Any) -> list[int]:
        """Return the workers' pids in rank order."""
        ...

    def pool_stop(self, end: Any) -> None:
        """Shut down cleanly. It may be called twice."""
        ...


@runtime_checkable
class CombinesTransfers(Protocol):
    """Capability ``transfers``: a pool whose results name what all its ranks have finished.

    With ``shape.transfers`` every rank answers a step, and may name transfers in the attributes
    ``finished_sending`` and ``finished_receiving`` of its result.
    """

    def pool_execute(self, end: Any, scheduled: object) -> Any:
        """Have all workers run ``execute_model(scheduled)``; return the output rank's result.

        Its two attributes then name what every rank has named, in this step or an earlier one, and
        no result has named yet. None: that rank had no result; what was due is due with the next.
        """
        ...


@runtime_checkable
class HasPipe(Protocol):
    """Capability ``pipe``: a pipe of tensors (SPEC 6). Ends are what ``pipe_make`` gave.

    Timeouts are in seconds; None: the pipe's own. A timeout that it cannot honour raises
    UnsupportedByTarget. A role may call ``pipe_recv`` in a second thread while it sends, and
    ``pipe_send`` in several.
    """

    def pipe_make(
        self,
        rank: int,
        shape: PipeShape,
        host: str,
        port: int,
        secret: bytes,
        timeout: float | None,
    ) -> Any:
        """Make one rank's end; it returns once all ranks have come.

        Rank 0 listens at that address; the others connect to it, or to a relay that leads there.
        ``secret``: 32 bytes that only its ranks have, for pipes that authenticate.
        """
        ...

    def pipe_send(self, end: Any, tensor: Any | None, timeout: float | None) -> None:
        """Send a tensor, or None, to the next rank."""
        ...

    def pipe_recv(self, end: Any, timeout: float | None) -> Any:
        """Return what the previous rank sent next: a tensor, or None."""
        ...

    def pipe_buffered(self, end: Any) -> int:
        """Return the bytes of accepted tensors that are not sent yet."""
        ...

    def pipe_close(self, end: Any, timeout: float | None) -> None:
        """Close cleanly. The caller drops its own reference right after."""
        ...


@runtime_checkable
class KeepsSecrets(Protocol):
    """Beside ``pipe``, if its ends hold a secret, which must never be shown (S3)."""

    def pipe_secrets(self, end: Any) -> list[bytes]:
        """Return the parts of the secret that an end has, or has derived from it."""
        ...


@runtime_checkable
class ForgesMetadata(Protocol):
    """Beside ``pipe``, if it can be done: a peer that lies about a tensor (K6)."""

    def pipe_forge(self, end: Any, lie: str) -> None:
        """Send false metadata to the next rank, by the pipe's own wire.

        ``lie``: a word of :data:`killpoint.systems.pipe.steps.Lie`; UnsupportedByTarget for one
        that its wire cannot express.
        """
        ...


@runtime_checkable
class HasBlocks(Protocol):
    """Capability ``blocks``: KV blocks of a request over the end of a pipe, with a lease (K8)."""

    def blocks_send(self, end: Any, request: str, blocks: Sequence[Any], lease: float) -> None:
        """Send a request's blocks to the next rank.

        It returns once they were taken, or raises, by the end of the lease (seconds). After that
        the blocks are the caller's again.
        """
        ...

    def blocks_recv(self, end: Any, request: str, timeout: float | None) -> list[Any]:
        """Return a request's blocks, all of them and in order, or raise by the timeout."""
        ...


@runtime_checkable
class ForgesBlocks(Protocol):
    """Beside ``blocks``, if it can be done: a wire that harms what a transfer sends (K8)."""

    def blocks_forge(self, end: Any, how: str) -> None:
        """Have the blocks of the next ``blocks_send`` leave swapped, twice, too late and so on.

        ``how``: a word of :data:`killpoint.systems.pipe.steps.Forgery`; UnsupportedByTarget for
        one that its wire cannot express. The transfer itself goes on as if nothing were wrong.
        """
        ...


@runtime_checkable
class HasRing(Protocol):
    """Capability ``ring``: the ring below the queue, one slot at a time.

    The end is one of the queue's own; ``ring_attach`` is asked with the name of a segment that
    does not exist, or is too small, to see what happens (R8).
    """

    def ring_write(self, end: Any, timeout: float | None) -> AbstractContextManager[memoryview]:
        """Acquire the next slot to fill; leaving the block publishes it."""
        ...

    def ring_read(self, end: Any, timeout: float | None) -> AbstractContextManager[memoryview]:
        """Acquire the next slot to read; leaving the block marks it read."""
        ...

    def ring_attach(self, shape: QueueShape, name: str) -> Any:
        """Attach reader 0 to the segment ``name`` (without a leading slash), and look once."""
        ...


@runtime_checkable
class HasSlots(Protocol):
    """Capability ``slots``: each slot's flags can be seen, and each store to them observed."""

    def flags(self, end: Any, slot: int) -> bytes:
        """Return the written flag, then each reader's flag, one byte each (SPEC 1)."""
        ...

    def position(self, end: Any) -> int:
        """Return the slot that this end's next operation uses."""
        ...

    def overflowed(self, end: Any, slot: int) -> bool:
        """Return whether the slot holds a marker: its payload goes over a socket."""
        ...

    def observe(self, sink: StoreSink) -> None:
        """Have ends that are made or attached in this process report each store to a flag."""
        ...


@runtime_checkable
class HasWords(Protocol):
    """Beside ``slots``, if there are any: shared words other than the slots' flags."""

    def observe_words(self, sink: Callable[[str], AbstractContextManager[None]]) -> None:
        """Have ends make each store to such a word inside ``with sink("which = value")``.

        It is called before ends are made or attached, and after :meth:`HasSlots.observe`.
        """
        ...


@runtime_checkable
class HasPoints(Protocol):
    """Capability ``points``: code of the target that a kill may be placed in."""

    def is_own_code(self, code: CodeType) -> bool:
        """Return whether a code object belongs to the implementation under test."""
        ...
