"""A poller over simulated sockets and other pollable objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import zmq

from killpoint.simulation.sockets.network import Network


class Pollable(Protocol):
    """Object with events: a simulated socket or descriptor."""

    def events(self, wanted: int) -> int:
        """Return those of these events that are present now."""
        ...


class Poller:
    """Poller with the library's interface: ``register``, then ``poll``.

    Args:
        find: returns the object of a descriptor.
    """

    def __init__(self, network: Network, find: Callable[[int], Pollable]) -> None:
        self._network, self._find = network, find
        self._wanted: dict[Any, int] = {}

    def register(self, socket: Any, flags: int = zmq.POLLIN | zmq.POLLOUT) -> None:
        """Watch a socket for these events, instead of those before."""
        if flags:
            self._wanted[socket] = flags
        else:
            self._wanted.pop(socket, None)

    modify = register

    def unregister(self, socket: Any) -> None:
        """Stop watching a socket."""
        del self._wanted[socket]

    def poll(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        """Return the objects with events, after waiting at most that many milliseconds."""
        items = [(each, self._thing(each), flags) for each, flags in self._wanted.items()]
        names = " or ".join(str(thing) for _, thing, _ in items)
        self._network.wait(lambda: any(t.events(f) for _, t, f in items), timeout, names)
        return [(each, found) for each, t, flags in items if (found := t.events(flags))]

    def _thing(self, each: Any) -> Pollable:
        if isinstance(each, int):
            return self._find(each)
        if hasattr(each, "events"):
            return each
        return self._find(each.fileno())
