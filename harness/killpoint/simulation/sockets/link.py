"""A connection of two sockets: in each direction a pipe at either end, and the way between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from killpoint.simulation.sockets.parts import left, shown
from killpoint.simulation.sockets.pipe import Pipe

if TYPE_CHECKING:
    from killpoint.simulation.sockets.parts import Parts
    from killpoint.simulation.sockets.socket import Socket


class Link:
    """Connection of a socket that has connected to one that is bound.

    Inside a process a message has arrived once it is sent. Otherwise the environment carries it,
    and the first message that is carried makes the connection itself.
    """

    def __init__(self, connecting: Socket, bound: Socket, inside: bool) -> None:
        self.connecting, self.bound, self.inside = connecting, bound, inside
        self.leaver: Socket | None = None
        """Socket that has closed its end; its messages may still be in transit."""
        # libzmq has one pipe inside a process, and there the side that connects decides.
        shared = connecting.conflates if inside else None
        self.there = Lane(self, connecting, bound, shared)
        self.back = Lane(self, bound, connecting, shared)

    def lane_from(self, socket: Socket) -> Lane:
        """Return the direction in which this socket sends."""
        return self.there if socket is self.connecting else self.back

    def lane_to(self, socket: Socket) -> Lane:
        """Return the direction in which this socket receives."""
        return self.back if socket is self.connecting else self.there

    def peer(self, socket: Socket) -> Socket:
        """Return the other socket."""
        return self.bound if socket is self.connecting else self.connecting


class Lane:
    """One direction of a connection: messages go whole and in order."""

    def __init__(
        self, link: Link, source: Socket, destination: Socket, shared: bool | None
    ) -> None:
        self.link, self.source, self.destination = link, source, destination
        self.inside = shared is not None
        sending, receiving = source.send_limit, destination.receive_limit
        if shared is None:
            self.outbox = Pipe(sending)
            self.inbox = Pipe(receiving, destination.conflates)
        else:
            limit = sending + receiving if sending and receiving else 0
            self.outbox = self.inbox = Pipe(limit, shared)

    @property
    def loaded(self) -> bool:
        """True if a message is in transit that could arrive now."""
        if self.inside or not self.outbox:
            return False
        self.inbox.listen()  # the library's own thread hears at once
        return self.inbox.has_room()

    def post(self, parts: Parts) -> None:
        """Post a message, for which the sender has checked that there is room."""
        self.outbox.put(parts)

    def carry(self) -> None:
        """Deliver the oldest message."""
        self.inbox.put(left(self.outbox.take()))

    def __str__(self) -> str:
        return f"{shown(self.outbox.head)} from {self.source} arrives at {self.destination}"
