"""All simulated sockets of a world, and the environment that carries their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import zmq

from killpoint.interfaces import Action, World
from killpoint.simulation.sockets.link import Lane, Link
from killpoint.simulation.sockets.socket import Socket

INSIDE = "inproc://"
_EPHEMERAL = 49152


class Network:
    """Addresses, connections, and messages in transit (a source of actions).

    Between processes each arrival is an action: messages of one direction come in order, those of
    different ones in any. No accepted message is lost while both ends live; one that a socket
    drops, because it has no subscriber or its pipe is full, never sets out.

    A receiver sees every store that the sender had made before: locks and system calls are in
    between. ``fence`` is that of the running task.
    """

    lasting = True

    def __init__(self, world: World, fence: Callable[[], None]) -> None:
        self.world, self.fence = world, fence
        self.owner = ""
        """Name of the owner of sockets that are made while no task runs, for reports."""
        self.dropped: list[str] = []
        """Messages that were dropped for want of room, in words."""
        self._bound: dict[str, Socket] = {}
        self._hoping: list[tuple[Socket, str]] = []
        self._lanes: list[Lane] = []
        self._partings: list[Link] = []
        self._port = _EPHEMERAL
        self._counts: dict[str, int] = {}
        self._loaded: list[Action] | None = None
        world.add(self)

    # -- the environment ---------------------------------------------------------------------

    def actions(self) -> Sequence[Action]:
        """Return the arrivals, and notices of closed ends, that may happen now."""
        if self._loaded is None:
            self._loaded = [
                *(_Arrival(self, lane) for lane in self._lanes if lane.loaded),
                *(_Parting(self, link) for link in self._partings if not self._speaks(link)),
            ]
        return self._loaded

    def changed(self) -> None:
        """Record that a pipe was filled or emptied."""
        self._loaded = None
        self.world.moved()

    def arrive(self, lane: Lane) -> None:
        """Deliver one message."""
        lane.carry()
        lane.destination.arrived(lane.link)
        self.changed()

    def flush(self) -> None:
        """Deliver everything, in order, while a stage is still being set up."""
        while acts := self.actions():
            acts[0].apply()

    # -- sockets ------------------------------------------------------------------------------

    def name(self, kind: str) -> str:
        """Return a name for a new socket: its owner, its kind, and its number among those."""
        stem = f"{self.owner_now()}'s {kind}"
        count = self._counts[stem] = self._counts.get(stem, 0) + 1
        return stem if count == 1 else f"{stem} {count}"

    def owner_now(self) -> str:
        """Return the name of the task that makes a socket now."""
        return self.owner or self.world.current

    def bind(self, socket: Socket, address: str) -> str:
        """Let others connect; return the address with its port.

        Raises:
            zmq.ZMQError: it is taken.
        """
        for wildcard in (":0", ":*"):
            if address.startswith("tcp://") and address.endswith(wildcard):
                address = f"{address.removesuffix(wildcard)}:{self._port}"
                self._port += 1
        if address in self._bound:
            raise zmq.ZMQError(zmq.EADDRINUSE)
        self._bound[address] = socket
        for other, wanted in [hope for hope in self._hoping if hope[1] == address]:
            self._hoping.remove((other, wanted))
            self._join(other, socket, address)
        return address

    def connect(self, socket: Socket, address: str) -> None:
        """Connect, now or once the address is bound."""
        bound = self._bound.get(address)
        if bound is None:
            self._hoping.append((socket, address))
        else:
            self._join(socket, bound, address)

    def leave(self, socket: Socket, linger: int) -> None:
        """Close a socket: its sent messages are dropped, or still arrive if it lingers."""
        self._bound = {at: other for at, other in self._bound.items() if other is not socket}
        self._hoping = [hope for hope in self._hoping if hope[0] is not socket]
        for link in list(socket.links):
            socket.links.remove(link)
            link.lane_to(socket).outbox.clear()
            if linger == 0 and not link.inside:
                link.lane_from(socket).outbox.clear()
            if link.leaver is not None:
                self._forget(link)
                continue
            link.leaver = socket
            if link.inside:
                self.part(link)
            else:
                self._partings.append(link)
        self.changed()

    def part(self, link: Link) -> None:
        """Report to the remaining socket that the other has closed."""
        stayed = link.peer(link.leaver) if link.leaver is not None else link.bound
        self._forget(link)
        if not stayed.closed:
            stayed.parted(link)
        self.changed()

    def _join(self, connecting: Socket, bound: Socket, address: str) -> None:
        link = Link(connecting, bound, address.startswith(INSIDE))
        if not (connecting.takes_another and bound.takes_another):
            return  # as the library: the connection is refused in silence
        self._lanes += [link.there, link.back]
        bound.joined(link)
        connecting.joined(link)

    def _forget(self, link: Link) -> None:
        self._lanes = [lane for lane in self._lanes if lane not in (link.there, link.back)]
        if link in self._partings:
            self._partings.remove(link)

    @staticmethod
    def _speaks(link: Link) -> bool:
        """Return whether a message of the closed socket is still in transit."""
        return link.leaver is not None and len(link.lane_from(link.leaver).outbox) > 0

    def wait(self, ready: Callable[[], bool], milliseconds: float | None, label: str) -> bool:
        """Wait in the library's own unit; negative or None is for ever.

        Outside of all tasks no other task acts, so messages in transit arrive until it is ready.
        """
        if self.world.current == "-":
            while not ready() and (acts := self.actions()):
                acts[0].apply()
        seconds = None if milliseconds is None or milliseconds < 0 else milliseconds / 1000
        return self.world.wait(ready, seconds, label)


class _Arrival:
    def __init__(self, network: Network, lane: Lane) -> None:
        self._network, self._lane = network, lane

    @property
    def label(self) -> str:
        return str(self._lane)

    def apply(self) -> None:
        self._network.arrive(self._lane)


class _Parting:
    def __init__(self, network: Network, link: Link) -> None:
        self._network, self._link = network, link

    @property
    def label(self) -> str:
        return f"the connection of {self._link.connecting} to {self._link.bound} ends"

    def apply(self) -> None:
        self._network.part(self._link)
