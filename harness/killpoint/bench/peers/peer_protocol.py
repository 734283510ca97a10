"""Interface of a peer for the measuring processes: the black box of a target, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from killpoint.targets.shapes import QueueShape


class PeerProtocol(Protocol):
    """A way to send objects from one process to others. Every target is one."""

    def load(self) -> None:
        """Import what it needs; called before any fork."""
        ...

    def make(self, shape: QueueShape) -> Any:
        """The writer's end."""
        ...

    def handle(self, end: Any) -> Any:
        """Return what a reader needs to attach; picklable."""
        ...

    def attach(self, handle: Any, rank: int) -> Any:
        """A reader's end."""
        ...

    def ready(self, end: Any, timeout: float | None) -> None:
        """The collective handshake."""
        ...

    def send(self, end: Any, obj: Any, timeout: float | None) -> None:
        """Send to every reader."""
        ...

    def receive(self, end: Any, timeout: float | None) -> Any:
        """The next message."""
        ...

    def close(self, end: Any) -> None:
        """Give everything back."""
        ...


def sender(line: PeerProtocol, end: Any) -> Callable[[Any], Any]:
    """Return the call by which the peer's users send.

    It is the end's own ``enqueue`` if it has one: an adapter's call would count.
    """
    own = getattr(end, "enqueue", None)
    return own if callable(own) else lambda obj: line.send(end, obj, None)


def receiver(line: PeerProtocol, end: Any) -> Callable[[], Any]:
    """Return the call by which the peer's users receive; as for ``sender``."""
    own = getattr(end, "dequeue", None)
    return own if callable(own) else lambda: line.receive(end, None)
