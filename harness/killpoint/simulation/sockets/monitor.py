"""Events of a socket's connections, as messages of a socket of their own."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

import zmq

from killpoint.simulation.sockets.socket import Socket

if TYPE_CHECKING:
    from killpoint.simulation.sockets.network import Network
    from killpoint.simulation.sockets.parts import Parts

_EVENT = struct.Struct("=HI")


class Monitor(Socket):
    """Monitor that reports the ends of connections, and nothing else."""

    kind = "monitor"
    sends = False

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._told: deque[Parts] = deque()

    def tell_of_end(self) -> None:
        """Report the end of a connection."""
        self._told.append((_EVENT.pack(zmq.Event.DISCONNECTED, 0), b""))

    def has_message(self) -> bool:
        """Return whether an event is waiting (or a receive would fail at once)."""
        return self.closed or bool(self._told)

    def take(self) -> Parts:
        """Return the oldest event."""
        if not self._told:
            raise zmq.Again
        return self._told.popleft()
