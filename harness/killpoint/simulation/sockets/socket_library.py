"""Communication of a world: message sockets, descriptors, pollers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from killpoint.interfaces import World
from killpoint.simulation.sockets.context import Context
from killpoint.simulation.sockets.descriptors import Descriptors
from killpoint.simulation.sockets.network import Network
from killpoint.simulation.sockets.poller import Poller


class Sockets:
    """Sockets as ``SimulatedEnvironment.sockets`` has them, made anew for each run."""

    def __init__(self, world: World, fence: Callable[[], None]) -> None:
        self.network = Network(world, fence)
        self.descriptors = Descriptors(world, fence)

    def Context(self, io_threads: int = 1) -> Any:  # the library's own spelling
        """Return a context; the environment acts for its threads."""
        del io_threads
        return Context(self.network)

    def Poller(self) -> Any:
        """Return a poller of sockets and descriptors."""
        return Poller(self.network, self.descriptors.find)
