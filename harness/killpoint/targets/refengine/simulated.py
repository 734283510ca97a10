"""Simulated memory for the reference's unmodified ring, through its own seams.

Operations that the seams leave to C code (struct into a buffer) are replaced by module globals. A
queue's ends need descriptors and processes; without simulated sockets the ring is played alone,
with the same steps that the queue's ends take for a message that fits a slot.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from killpoint.errors import CannotWork
from killpoint.interfaces import Segment, SimulatedEnvironment
from killpoint.targets.shapes import QueueShape
from refengine.base import serialization
from refengine.ring import layout
from refengine.ring.layout import Layout
from refengine.ring.ring import Ring, RingHandle
from refengine.ring.waiting import WaitPoint

_STRUCTS = {serialization: ("_COUNT", "_LENGTH", "_ONE", "_MARKER"), layout: ("_HEAD",)}


@contextmanager
def rebound(environment: SimulatedEnvironment) -> Generator[RingsAlone]:
    """Until left, rings are made of simulated memory."""
    with plain_structs():
        yield RingsAlone(environment)


@contextmanager
def plain_structs() -> Generator[None]:
    """Until left, structs also pack into objects that are no real buffers."""
    kept = [(module, name, getattr(module, name)) for module, ns in _STRUCTS.items() for name in ns]
    for module, name, real in kept:
        setattr(module, name, _Struct(real))
    try:
        yield
    finally:
        for module, name, real in kept:
            setattr(module, name, real)


class RingsAlone:
    """The black box over rings without a queue around them."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment
        self._encoder = serialization.Encoder(serialization.Limits())

    def make(self, shape: QueueShape) -> Ring:
        """Make the writer's end."""
        sizes = (shape.readers, shape.chunk_bytes, shape.chunks)
        ring = Ring.create(*sizes, **self._seams())
        segment: Any = ring.segment
        segment.call(namer(Layout(*sizes)))
        return ring

    def handle(self, end: Ring) -> RingHandle:
        """Return what a reader needs."""
        return end.handle()

    def attach(self, handle: RingHandle, rank: int) -> Ring:
        """Make the end of reader ``rank``."""
        return Ring.attach(handle, rank, **self._seams())

    def send(self, end: Ring, obj: Any, timeout: float | None) -> None:
        """As the queue's writing end does it for one buffer."""
        main = serialization.encode_short(obj) if type(obj) is bytes else None
        buffers = self._encoder.encode(obj) if main is None else [main]
        total = serialization.total_of([len(buffer) for buffer in buffers])
        if len(buffers) > 1 or serialization.overflows(total, end.layout.max_chunk_bytes):
            raise CannotWork("a message took the overflow path in a world without sockets")
        if not end.writer.send(buffers[0], timeout):
            raise TimeoutError

    def receive(self, end: Ring, timeout: float | None) -> Any:
        """Receive one buffer as the queue's reading end does."""
        chunk = end.reader.claim(timeout)
        if chunk is None:
            raise TimeoutError
        main = serialization.read_single(chunk)
        raw: serialization.Raw = serialization.read_message(chunk) if main is None else [main]
        end.reader.release_slot()
        return serialization.decode(raw)

    def _seams(self) -> Any:
        around = self._environment
        return {
            "memory": SimulatedMemory(around),
            "waiting": _Spinning(around),
            "fence": SimulatedFence(around),
        }


class SimulatedMemory:
    """Segments of the environment's memory."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment

    def create(self, nbytes: int) -> _Segment:
        """Make a new segment."""
        return _Segment(self._environment.create(nbytes))

    def attach(self, name: str, nbytes: int) -> _Segment:
        """Attach to a segment that is there."""
        del nbytes
        return _Segment(self._environment.attach(name))


class _Segment:
    """A simulated segment in the shape of refengine's."""

    def __init__(self, real: Segment) -> None:
        self.name, self.buf, self.call = real.name, real.buf, real.call

    def unlink(self) -> None:
        """Do nothing: it ends with its world."""

    def close(self) -> None:
        """Do nothing, likewise."""


class SimulatedFence:
    """Both halves of the pair are full fences, each for itself."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._fence = environment.fence

    def acquire(self, blocking: bool = True, /) -> bool:
        """Make the first half, a full fence."""
        del blocking
        self._fence()
        return True

    def release(self) -> None:
        """Make the second half, a full fence."""
        self._fence()


class _Spinning:
    """Wait strategy that looks again: sleeping is outside what memory models are about."""

    def __init__(self, environment: SimulatedEnvironment) -> None:
        self._environment = environment

    def wait(self, look: Callable[[], bool], point: WaitPoint, timeout: float | None) -> bool:
        around = self._environment
        end = None if timeout is None else around.now() + timeout
        while not look():
            if end is not None and around.now() >= end:
                return False
            around.spin(point.waiting_for)
        return True


class _Struct:
    """Struct that packs into an object that is no real buffer."""

    def __init__(self, real: struct.Struct) -> None:
        self.size, self._real = real.size, real

    def pack_into(self, into: Any, offset: int, *values: Any) -> None:
        into[offset : offset + self.size] = self._real.pack(*values)

    def unpack_from(self, source: Any, offset: int = 0) -> tuple[Any, ...]:
        return self._real.unpack(bytes(source[offset : offset + self.size]))


def namer(sizes: Layout) -> Callable[[int, int], str]:
    """Return a function that names what lies at an offset of a ring's memory."""

    def name(at: int, size: int) -> str:
        for slot in range(sizes.max_chunks):
            first = sizes.number_at(slot)
            if at == first:
                return f"slot {slot}'s number"
            if at == sizes.written_at(slot):
                return f"slot {slot}'s written flag"
            if sizes.read_at(slot, 0) <= at < sizes.read_at(slot, sizes.n_reader):
                which = at - sizes.read_at(slot, 0)
                return (
                    f"slot {slot}'s flags of readers"
                    if size > 1
                    else (f"slot {slot}'s flag of reader-{which}")
                )
            chunk = sizes.chunk_at(slot)
            if chunk <= at < chunk + sizes.max_chunk_bytes:
                return f"chunk {slot} from byte {at - chunk}"
        return f"the header's byte {at}"

    return name
