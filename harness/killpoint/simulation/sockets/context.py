"""The context of simulated sockets."""

from __future__ import annotations

from typing import Any

import zmq

from killpoint.simulation.sockets.network import Network
from killpoint.simulation.sockets.pair import Pair
from killpoint.simulation.sockets.publishing import OpenPublisher, Publisher
from killpoint.simulation.sockets.socket import Socket
from killpoint.simulation.sockets.subscribing import Subscriber

_KINDS: dict[int, type[Socket]] = {
    zmq.PUB: Publisher,
    zmq.XPUB: OpenPublisher,
    zmq.SUB: Subscriber,
    zmq.PAIR: Pair,
}


class Context:
    """Context that makes the sockets of one network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._sockets: list[Socket] = []
        self.closed = False

    def socket(self, socket_type: int) -> Any:
        """Make a socket of a kind that is simulated."""
        kind = _KINDS.get(socket_type)
        if kind is None:
            raise NotImplementedError(f"no simulated socket of type {socket_type}")
        socket = kind(self._network)
        self._sockets.append(socket)
        return socket

    def term(self) -> None:
        """Wait until every socket is closed."""
        self._network.wait(self._all_closed, None, "the context's sockets to be closed")
        self.closed = True

    def destroy(self, linger: int | None = None) -> None:
        """Close every socket, then end."""
        for socket in self._sockets:
            socket.close(linger)
        self.closed = True

    def _all_closed(self) -> bool:
        return all(socket.closed for socket in self._sockets)
