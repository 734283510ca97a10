"""Base of simulated sockets: options, sending and receiving, polling, closing."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import zmq

from killpoint.simulation.sockets.parts import Parts, parts_of, shown

if TYPE_CHECKING:
    from killpoint.simulation.sockets.link import Lane, Link
    from killpoint.simulation.sockets.network import Network

_HEARS_EVERY = 0.001
"""Seconds since its last look after which a sender learns of room at once (libzmq counts three
million ticks of the processor's clock)."""
_DEFAULTS: dict[int, Any] = {
    zmq.SNDHWM: 1000,
    zmq.RCVHWM: 1000,
    zmq.LINGER: -1,
    zmq.CONFLATE: 0,
    zmq.RCVTIMEO: -1,
    zmq.SNDTIMEO: -1,
    zmq.XPUB_VERBOSE: 0,
    zmq.LAST_ENDPOINT: b"",
}
_OF_NO_EFFECT = frozenset((zmq.IPV6, zmq.RECONNECT_IVL, zmq.HEARTBEAT_IVL, zmq.HEARTBEAT_TIMEOUT))
"""Options that may be set, and have no effect where no connection breaks."""


class Socket:
    """Base class of sockets; each kind defines its treatment of messages.

    Sending and receiving are steps of the world's: each is a point at which others may go on.
    """

    kind: ClassVar[str]
    sends: ClassVar[bool] = True
    receives: ClassVar[bool] = True

    def __init__(self, network: Network) -> None:
        self.network = network
        self.owner = network.owner_now()
        self.name = network.name(self.kind)
        self.links: list[Link] = []
        self.closed = False
        self._options = dict(_DEFAULTS)
        self._unsent: list[Any] = []
        self._rest: deque[bytes | memoryview] = deque()
        """Remaining parts of the message that is being received part by part."""
        self._heard_at = float("-inf")

    def __str__(self) -> str:
        return self.name

    def __enter__(self) -> Socket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- options ------------------------------------------------------------------------------

    @property
    def send_limit(self) -> int:
        """Number of messages that may wait to leave; 0: any number."""
        return self._options[zmq.SNDHWM]

    @property
    def receive_limit(self) -> int:
        """Number of messages that may wait to be received; 0: any number."""
        return self._options[zmq.RCVHWM]

    @property
    def conflates(self) -> bool:
        """True if it keeps the newest message only."""
        return False

    def setsockopt(self, option: int, value: Any) -> None:
        """Set an option; limits count for connections made later, as in the library."""
        self._check()
        if option in _OF_NO_EFFECT:
            return
        if option not in self._options or option == zmq.LAST_ENDPOINT:
            raise NotImplementedError(f"a simulated {self.kind} has no option {option}")
        self._options[option] = value

    def setsockopt_string(self, option: int, value: str, encoding: str = "utf-8") -> None:
        """Set an option whose value is bytes."""
        self.setsockopt(option, value.encode(encoding))

    def getsockopt(self, option: int) -> Any:
        """Return an option's value."""
        self._check()
        if option == zmq.EVENTS:
            return self.events(zmq.POLLIN | zmq.POLLOUT)
        if option == zmq.RCVMORE:
            return int(bool(self._rest))
        if option not in self._options:
            raise NotImplementedError(f"a simulated {self.kind} has no option {option}")
        return self._options[option]

    set, get, set_string = setsockopt, getsockopt, setsockopt_string

    @property
    def LAST_ENDPOINT(self) -> bytes:
        """Address that it was bound to last."""
        return self.getsockopt(zmq.LAST_ENDPOINT)

    # -- connections --------------------------------------------------------------------------

    @property
    def takes_another(self) -> bool:
        """True if it accepts one more connection."""
        return True

    def bind(self, address: str) -> None:
        """Let others connect."""
        self._check()
        bound = self.network.bind(self, address)
        self._options[zmq.LAST_ENDPOINT] = bound.encode() + b"\0"

    def connect(self, address: str) -> None:
        """Connect, also to an address that is not bound yet."""
        self._check()
        self.network.connect(self, address)

    def close(self, linger: int | None = None) -> None:
        """Close; idempotent."""
        if self.closed:
            return
        self.closed = True
        self.network.leave(self, self._options[zmq.LINGER] if linger is None else linger)

    def joined(self, link: Link) -> None:
        """Add a connection."""
        self.links.append(link)

    def parted(self, link: Link) -> None:
        """Handle the close of the other end; messages that had arrived can still be received."""
        if not link.lane_to(self).inbox:
            self.links.remove(link)

    def arrived(self, link: Link) -> None:
        """Handle a message that has arrived by a connection."""

    # -- sending ------------------------------------------------------------------------------

    def send(self, data: Any, flags: int = 0, copy: bool = True, track: bool = False) -> None:
        """Send a message, or a part of one if more is to follow."""
        del track
        self._unsent.append((data, copy))
        if flags & zmq.SNDMORE:
            return
        parts: Parts = ()
        for each, copied in self._unsent:
            parts += parts_of([each], copied)
        self._unsent.clear()
        self._send(parts, flags)

    def send_multipart(
        self, msg_parts: Sequence[Any], flags: int = 0, copy: bool = True, track: bool = False
    ) -> None:
        """Send a message of several parts."""
        del track
        self._send(parts_of(msg_parts, copy), flags)

    def _send(self, parts: Parts, flags: int) -> None:
        self._check(self.sends)
        self.network.fence()
        self.network.world.point()
        self._hear()
        self.pass_on(parts, flags)
        if self.network.world.recording:
            self.network.world.note(f"sends {shown(parts)} by its {self.kind}")

    def pass_on(self, parts: Parts, flags: int) -> None:
        """Put a message in transit."""
        del parts, flags
        raise zmq.ZMQError(zmq.ENOTSUP)

    def _hear(self) -> None:
        """Process the receivers' reports, unless that was done a moment ago."""
        now = self.network.world.now
        if now - self._heard_at >= _HEARS_EVERY:
            self._heard_at = now
            for link in self.links:
                link.lane_from(self).outbox.listen()

    def finds_room(self, lane: Lane) -> bool:
        """Return whether a message can leave this way, as far as this side knows.

        If it looked a moment ago, it is a choice whether it knows of messages taken since.
        """
        if lane.outbox.has_news():
            late = self.network.world.decide(
                2, lambda _: f"does not know yet that {lane.destination} has room"
            )
            if not late:
                lane.outbox.listen()
        return lane.outbox.has_room()

    # -- receiving ----------------------------------------------------------------------------

    def recv(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """Return the next message, or the next part of the one begun."""
        del track
        if not self._rest:
            self._rest.extend(self._receive(flags))
        return _given(self._rest.popleft(), copy)

    def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> list[Any]:
        """Return the next message in all its parts."""
        first = self.recv(flags, copy, track)
        parts = [first, *(_given(part, copy) for part in self._rest)]
        self._rest.clear()
        return parts

    def _receive(self, flags: int) -> Parts:
        self._check(self.receives)
        limit = 0 if flags & zmq.NOBLOCK else self._options[zmq.RCVTIMEO]
        if not self.network.wait(self.has_message, limit, f"a message at {self}"):
            raise zmq.Again
        self._check()
        parts = self.take()
        self.network.fence()
        self.network.changed()
        if self.network.world.recording:
            self.network.world.note(f"receives {shown(parts)} by its {self.kind}")
        return parts

    def has_message(self) -> bool:
        """Return whether a receive would return a message now (or fail at once)."""
        return self.closed or any(link.lane_to(self).inbox for link in self.links)

    def take(self) -> Parts:
        """Return the next message; connections take turns."""
        for link in list(self.links):
            inbox = link.lane_to(self).inbox
            if inbox:
                parts = inbox.take()
                self.links.remove(link)
                if inbox or link.leaver is None or link.leaver is self:
                    self.links.append(link)
                return parts
        raise zmq.Again

    # -- polling ------------------------------------------------------------------------------

    def events(self, wanted: int) -> int:
        """Return those of these events that are present now."""
        found = 0
        if wanted & zmq.POLLIN and self.receives and (self._rest or self.has_message()):
            found |= zmq.POLLIN
        if wanted & zmq.POLLOUT and self.sends and self.has_room():
            found |= zmq.POLLOUT
        return found

    def has_room(self) -> bool:
        """Return whether a send would not have to wait."""
        return True

    def poll(self, timeout: float | None = None, flags: int = zmq.POLLIN) -> int:
        """Wait for an event, at most that many milliseconds; return the events."""
        self._check()
        self.network.wait(lambda: bool(self.events(flags)), timeout, f"an event at {self}")
        return self.events(flags)

    def _check(self, able: bool = True) -> None:
        if self.closed or not able:
            raise zmq.ZMQError(zmq.ENOTSUP if not able else zmq.ENOTSOCK)


def _given(part: bytes | memoryview, copy: bool) -> Any:
    return bytes(part) if copy else zmq.Frame(part)
