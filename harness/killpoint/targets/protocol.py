"""What a target gives the harness: a queue as a black box, and optional capabilities on top.

An adapter runs inside the role processes. It never judges: it calls the implementation, and
translates the implementation's exceptions into one of a few :data:`Outcome` words.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import CodeType
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import msgspec

Capability = Literal["queue", "deadlines", "cancel", "limits", "ring", "slots", "points"]
"""What a target can be asked for (SPEC 10). Three words refine ``queue``: ``deadlines`` (send
and receive take a timeout), ``cancel`` (a second thread can wake a waiting call) and ``limits``
(the encoder's format limits can be set small)."""

Outcome = Literal[
    "ok", "timeout", "peer-died", "closed", "lost", "cancelled", "busy", "refused", "error"
]
"""How a call ended. ``busy``: another thread is inside the object; ``error``: any other exception
that the caller can act on."""

StoreSink = Callable[[int, int, int], AbstractContextManager[None]]
"""``with sink(slot, flag, value):`` around each store to a slot's flags: the store is made inside
the block, which holds a lock over all roles, so that the recorded order is the real one. Flag 0
is *written*, flag 1 + i belongs to reader i."""


class QueueShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A queue to be made: how many readers, and the ring's dimensions."""

    readers: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 2
    chunk_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 64 * 1024
    chunks: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 4
    max_buffers: int | None = None
    """Format limit on the number of buffers in a message (capability ``limits``)."""
    max_buffer_bytes: int | None = None
    """Format limit on the length of one buffer (capability ``limits``)."""


class UnsupportedByTarget(Exception):
    """The target cannot do what was asked: the case is `unsupported`, never `held`."""


class Target(Protocol):
    """An implementation under test, as the zygote and the roles see it.

    The nine methods below are the black box, capability ``queue``. ``end`` is whatever ``make``
    or ``attach`` returned; handles must survive :mod:`pickle`. Everything else is optional and
    declared in ``capabilities``: see :class:`Cancels`, :class:`HasRing`, :class:`HasSlots`,
    :class:`HasPoints`.
    """

    name: str
    version: str
    capabilities: frozenset[Capability]

    def load(self) -> None:
        """Import the implementation. Called once in the zygote, before any fork."""
        ...

    def make(self, shape: QueueShape) -> Any:
        """The writer's end of a new queue."""
        ...

    def handle(self, end: Any) -> Any:
        """What another process needs to attach."""
        ...

    def attach(self, handle: Any, rank: int) -> Any:
        """The end of reader ``rank``."""
        ...

    def ready(self, end: Any, timeout: float | None) -> None:
        """The collective handshake."""
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
        """The outcome that an exception of this implementation stands for."""
        ...


@runtime_checkable
class Cancels(Protocol):
    """Capability ``cancel``: a second thread ends a call that waits on ``end``."""

    def cancel(self, end: Any) -> None:
        """Wake whoever waits on this end; it raises (`cancelled`, `closed` or `error`)."""
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
        """Written flag, then each reader's flag, one byte each (SPEC 1)."""
        ...

    def position(self, end: Any) -> int:
        """The slot that this end's next operation uses."""
        ...

    def overflowed(self, end: Any, slot: int) -> bool:
        """Whether the slot's content says that its payload goes another way."""
        ...

    def observe(self, sink: StoreSink) -> None:
        """From now on, ends made or attached in this process report each store to a flag."""
        ...


@runtime_checkable
class HasPoints(Protocol):
    """Capability ``points``: code of the target that a kill may be placed in."""

    def is_own_code(self, code: CodeType) -> bool:
        """Whether a code object belongs to the implementation under test."""
        ...
