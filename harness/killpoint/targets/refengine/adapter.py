"""The reference implementation as a target, with every capability that it has."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import CodeType
from typing import Any, cast

import refengine
from killpoint.interfaces import SimulatedEnvironment
from killpoint.targets.protocol import BlackBox, Capability, Outcome, StoreSink, UnsupportedByTarget
from killpoint.targets.refengine import (
    coordinator,
    coordinator_process,
    engine,
    pipe,
    pool,
    queue_simulated,
    simulated,
)
from killpoint.targets.shapes import GroupShape, QueueShape
from refengine.base.serialization import Limits
from refengine.engine.core.start import CORE_PRELOAD
from refengine.errors import (
    Busy,
    Cancelled,
    EncodingLimit,
    GroupClosed,
    MessagesLost,
    PeerDied,
    PeerSilent,
    QueueClosed,
    RankRefused,
)
from refengine.executor import Zygote
from refengine.group import Group
from refengine.queue import Handle, MessageQueue
from refengine.ring.layout import NUMBER, READERS_SLEEP, WRITER_SLEEPS, WRITER_STATE, Layout
from refengine.ring.memory import MakeSharedWords, raw_words
from refengine.ring.ring import Ring, RingHandle

__all__ = ["RefengineTarget"]

Words = Callable[[str], AbstractContextManager[None]]

_PEER_TIMEOUT = 10.0
_POOL_WORKER = "killpoint.systems.pool.worker_class:PoolWorker"
_JOINING, _BARRIER = 300.0, 30.0  # the group's own defaults
_HOME = str(Path(refengine.__file__).parent) + "/"
_OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (TimeoutError, "timeout"),
    (PeerDied, "peer-died"),
    (PeerSilent, "peer-died"),
    (QueueClosed, "closed"),
    (GroupClosed, "closed"),
    (MessagesLost, "lost"),
    (Cancelled, "cancelled"),
    (EncodingLimit, "refused"),
    (RankRefused, "refused"),
    (Busy, "busy"),
    *pool.OUTCOMES,
    *pipe.OUTCOMES,
    *engine.OUTCOMES,
)


class RefengineTarget(
    pool.PoolOfRefengine,
    pipe.PipeOfRefengine,
    coordinator.CoordinatorOfRefengine,
    coordinator_process.CoordinatorProcessOfRefengine,
    engine.EngineOfRefengine,
):
    """:mod:`refengine` behind the harness's protocol."""

    name = "refengine"
    version = "reference"
    notes = queue_simulated.NOTES
    capabilities: frozenset[Capability] = frozenset(
        (
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
            "sim_memory",
            "sim_sockets",
            "clock",
        )
    )

    preloads = ("zmq.utils.garbage",)
    """Modules that roles find imported, without torch: a process without torch is forked, and dies,
    in a quarter of the time."""

    def __init__(self) -> None:
        """Begin without observers of stores."""
        self._sink: StoreSink | None = None
        self._words: Words = lambda _: contextlib.nullcontext()

    def load(self) -> None:
        """Do nothing: the import of this module has imported it."""

    def prefork_modules(self, system: str) -> tuple[str, ...]:
        """Return the modules of the zygote of workers, or of cores."""
        return CORE_PRELOAD if system == "engine" else pool.preloads(_POOL_WORKER)

    def prefork(self, system: str) -> None:
        """Make that zygote a fork of this process."""
        Zygote.fork_self(self.prefork_modules(system))

    def make(self, shape: QueueShape) -> MessageQueue:
        """Make the writer's end."""
        limits = Limits()
        if shape.max_buffers is not None or shape.max_buffer_bytes is not None:
            limits = Limits(
                shape.max_buffers or limits.max_buffers,
                shape.max_buffer_bytes or limits.max_buffer_bytes,
            )
        local = shape.readers - shape.remote
        layout = Layout(max(1, local), shape.chunk_bytes, shape.chunks)
        end = MessageQueue(
            shape.readers,
            local,
            connect_ip=shape.host,
            peer_timeout=shape.silence or _PEER_TIMEOUT,
            max_chunk_bytes=shape.chunk_bytes,
            max_chunks=shape.chunks,
            limits=limits,
            cells=self._cells(layout),
        )
        if self._sink is not None and local:
            side: Any = _ring(end).writer
            side._numbers = _ObservedNumbers(side._numbers, self._words)
        return end

    def handle(self, end: MessageQueue) -> Any:
        """Return what a reader needs."""
        return end.export_handle()

    def attach(self, handle: Any, rank: int) -> MessageQueue:
        """Make the end of reader ``rank``."""
        ring: RingHandle | None = handle.ring
        if ring is None:
            return MessageQueue.create_from_handle(handle, rank)
        layout = Layout(ring.n_reader, ring.max_chunk_bytes, ring.max_chunks)
        return MessageQueue.create_from_handle(handle, rank, cells=self._cells(layout))

    def ready(self, end: MessageQueue, timeout: float | None) -> None:
        """Do the collective handshake."""
        end.wait_until_ready(timeout)

    def send(self, end: MessageQueue, obj: Any, timeout: float | None) -> None:
        """Enqueue for every reader."""
        end.enqueue(obj, timeout)

    def receive(self, end: MessageQueue, timeout: float | None) -> Any:
        """Dequeue the next message."""
        return end.dequeue(timeout)

    def close(self, end: MessageQueue) -> None:
        """Close cleanly."""
        end.close()

    def cancel(self, end: MessageQueue) -> None:
        """Wake the calls that wait on this end."""
        end.shutdown()

    def classify(self, error: BaseException) -> Outcome:
        """Return the outcome that an exception stands for."""
        for kind, outcome in _OUTCOMES:
            if isinstance(error, kind):
                return outcome
        return "error"

    # -- remote readers ---------------------------------------------------------------------

    def addresses(self, handle: Handle) -> list[str]:
        """Return the address that remote readers connect to, if there is one."""
        return [handle.remote.removeprefix("tcp://")] if handle.remote else []

    def rerouted(self, handle: Handle, table: dict[str, str]) -> Handle:
        """Return the handle with its address replaced."""
        (address,) = self.addresses(handle)
        return dataclasses.replace(handle, remote="tcp://" + table.get(address, address))

    def secrets(self, handle: Handle) -> list[bytes]:
        """Return the key, and what is derived from it."""
        keys = handle.keys
        return [keys.secret, *keys.curve("listens"), *keys.curve("connects")]

    # -- the ring ---------------------------------------------------------------------------

    def ring_write(
        self, end: MessageQueue, timeout: float | None
    ) -> AbstractContextManager[memoryview]:
        """Acquire the next chunk to fill."""
        return _ring(end).acquire_write(timeout)

    def ring_read(
        self, end: MessageQueue, timeout: float | None
    ) -> AbstractContextManager[memoryview]:
        """Acquire the next chunk to read."""
        return _ring(end).acquire_read(timeout)

    def ring_attach(self, shape: QueueShape, name: str) -> Any:
        """Attach reader 0 to a segment by name, and look at its first slot."""
        handle = RingHandle(shape.readers, shape.chunk_bytes, shape.chunks, name)
        ring = Ring.attach(handle, 0)
        return ring.segment.buf[ring.layout.written_at(0)]

    # -- slots ------------------------------------------------------------------------------

    def flags(self, end: MessageQueue, slot: int) -> bytes:
        """Return the written flag, then the readers' flags."""
        ring = _ring(end)
        at = ring.layout.written_at(slot)
        return bytes(ring.segment.buf[at : at + 1 + ring.layout.n_reader])

    def position(self, end: MessageQueue) -> int:
        """Return the slot of the next operation."""
        ring = _ring(end)
        side = ring.writer if ring.rank is None else ring.reader
        return side.number % ring.layout.max_chunks

    def overflowed(self, end: MessageQueue, slot: int) -> bool:
        """Return whether the slot holds a marker instead of a message."""
        ring = _ring(end)
        memory = ring.segment.buf
        return memory[ring.layout.chunk_of(memory, slot)] == 1

    def observe(self, sink: StoreSink) -> None:
        """Report each store to a flag from now on."""
        self._sink = sink

    def _cells(self, layout: Layout) -> MakeSharedWords:
        sink = self._sink
        if sink is None:
            return raw_words
        words = self._words
        return lambda memory: _ObservedCells(memory, layout, sink, words)

    def observe_words(self, sink: Words) -> None:
        """Report each store to a sleeper's, a party's or a message number's word from now on."""
        self._words = sink

    # -- groups -----------------------------------------------------------------------------

    def join(
        self,
        shape: GroupShape,
        address: tuple[str, int],
        rank: int,
        secret: bytes,
        timeout: float | None,
    ) -> Group:
        """Become a member, once all are."""
        host, port = (shape.host, address[1]) if rank == 0 else address
        return Group.create(
            host,
            port,
            rank,
            shape.ranks,
            key=secret,
            timeout=_JOINING if timeout is None else timeout,
            peer_timeout=shape.silence or _PEER_TIMEOUT,
        )

    def group_send(self, end: Group, obj: Any, to: int) -> None:
        """Send to one rank."""
        end.send_obj(obj, to)

    def group_receive(self, end: Group, source: int, timeout: float | None) -> Any:
        """Return the next object from one rank."""
        return end.recv_obj(source, timeout)

    def group_broadcast(self, end: Group, obj: Any, source: int, timeout: float | None) -> Any:
        """Return the source's object."""
        return end.broadcast_obj(obj, source, timeout)

    def group_gather(self, end: Group, obj: Any, timeout: float | None) -> list[Any]:
        """Return every rank's object."""
        return end.all_gather_obj(obj, timeout)

    def group_barrier(self, end: Group, timeout: float | None) -> None:
        """Wait for all ranks."""
        end.barrier(_BARRIER if timeout is None else timeout)

    def group_leave(self, end: Group) -> None:
        """Leave cleanly."""
        end.close()

    # -- simulation -------------------------------------------------------------------------

    def simulated(self, environment: SimulatedEnvironment) -> AbstractContextManager[BlackBox]:
        """Simulate whole queues, or rings alone in a world without sockets."""
        if environment.sockets is None:
            return simulated.rebound(environment)
        return queue_simulated.rebound(environment)

    # -- points -----------------------------------------------------------------------------

    def is_own_code(self, code: CodeType) -> bool:
        """Return whether code stands in the package's own files."""
        return code.co_filename.startswith(_HOME)


def _ring(end: MessageQueue) -> Ring:
    ring = end._end.ring  # pyright: ignore[reportPrivateUsage] # the adapter looks inside
    if ring is None:
        raise UnsupportedByTarget("a remote reader has no ring")
    return ring


class _ObservedCells:
    """The ring's memory, with each store to a slot's flags made inside the sink."""

    def __init__(self, memory: memoryview, layout: Layout, sink: StoreSink, words: Words) -> None:
        self._memory = memory
        self._sink = sink
        self._words = words
        self._names = {READERS_SLEEP: "readers sleep", WRITER_SLEEPS: "writer sleeps"}
        self._names[WRITER_STATE] = "writer's state"
        for rank in range(layout.n_reader):
            self._names[layout.reader_state(rank)] = f"reader {rank}'s state"
        self._where = {
            layout.written_at(slot) + flag: (slot, flag)
            for slot in range(layout.max_chunks)
            for flag in range(1 + layout.n_reader)
        }

    def __getitem__(self, at: Any) -> Any:
        return cast("Any", self._memory)[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        if isinstance(at, slice):
            for offset, byte in zip(range(*at.indices(len(self._memory))), value, strict=True):
                self[offset] = byte
            return
        where = self._where.get(at)
        word = f"{self._names.get(at, at)} = {value}"
        with self._sink(*where, value) if where else self._words(word):
            self._memory[at] = value


class _ObservedNumbers:
    """The words that say which message a slot holds; only the writer stores to them."""

    def __init__(self, numbers: memoryview, words: Words) -> None:
        self._numbers = numbers
        self._words = words

    def __setitem__(self, at: int, value: int) -> None:
        with self._words(f"number of message {value & NUMBER}"):
            self._numbers[at] = value

    def __getitem__(self, at: int) -> int:
        return self._numbers[at]

    def release(self) -> None:
        self._numbers.release()
