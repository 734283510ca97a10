"""The few rtnetlink messages that make, address, cut and mend virtual links; no tool is needed."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from ipaddress import IPv4Address

_NEW_LINK, _GET_LINK, _SET_LINK, _NEW_ADDRESS = 16, 18, 19, 20
_NEW_NEIGHBOUR, _DELETE_NEIGHBOUR = 28, 29
_REQUEST, _ACKNOWLEDGE, _REPLACE, _EXCLUSIVE, _CREATE = 1, 4, 0x100, 0x200, 0x400
_ERROR = 2

_NAME, _MASTER, _ABOUT, _IN_NAMESPACE = 3, 10, 18, 28
_KIND, _DATA = 1, 2
_PEER = 1
_ADDRESS, _LOCAL = 1, 2
_TO, _BY = 1, 2
_PERMANENT = 0x80
_NOWHERE = bytes.fromhex("02deadbeef00")
"""A locally administered hardware address that no link has."""

_UP, _LOWER_UP = 0x1, 0x1_0000
_GET_INDEX = 0x8933  # an ioctl
_HEAD = struct.Struct("=IHHII")  # length, kind, flags, number, port
_ANSWERS_WITHIN = 5.0


class Netlink:
    """Commands to the network namespace that the calling process is in when it makes this."""

    def __init__(self) -> None:
        """Open the socket, which stays in this namespace wherever the process goes later."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(_ANSWERS_WITHIN)
        self._number = 0

    def close(self) -> None:
        """Close the socket; links stay."""
        self._socket.close()

    def add_bridge(self, name: str) -> None:
        """Add a bridge."""
        about = _attribute(_KIND, b"bridge")
        self._new_link(_attribute(_NAME, _text(name)) + _attribute(_ABOUT, about))

    def add_pair(self, name: str, far: str, namespace: int, switch: str) -> None:
        """Add a link with one end here, at a bridge, and the other in a descriptor's namespace."""
        peer = _link() + _attribute(_NAME, _text(far))
        peer += _attribute(_IN_NAMESPACE, struct.pack("=I", namespace))
        about = _attribute(_KIND, b"veth") + _attribute(_DATA, _attribute(_PEER, peer))
        here = _attribute(_NAME, _text(name))
        here += _attribute(_MASTER, struct.pack("=I", self.index(switch)))
        self._new_link(here + _attribute(_ABOUT, about))

    def set_up(self, name: str, *, up: bool) -> None:
        """Switch a link on or off; the far end of a pair loses or regains its carrier."""
        flags = _UP if up else 0
        self._ask(_SET_LINK, 0, _link(self.index(name), flags, _UP))

    def add_address(self, name: str, address: IPv4Address, prefix: int) -> None:
        """Give a link an address, and with it a route to its net."""
        about = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, self.index(name))
        own = _attribute(_ADDRESS, address.packed) + _attribute(_LOCAL, address.packed)
        self._ask(_NEW_ADDRESS, _CREATE | _EXCLUSIVE, about + own)

    def mislead(self, name: str, address: IPv4Address) -> None:
        """Have this end's packets to that address lost, without any error."""
        body = self._neighbour(name, address) + _attribute(_BY, _NOWHERE)
        self._ask(_NEW_NEIGHBOUR, _CREATE | _REPLACE, body)

    def set_right(self, name: str, address: IPv4Address) -> None:
        """Undo :meth:`mislead`."""
        try:
            self._ask(_DELETE_NEIGHBOUR, 0, self._neighbour(name, address))
        except FileNotFoundError:
            return

    def index(self, name: str) -> int:
        """Return the kernel's index of a link."""
        request = struct.pack("16s24x", name.encode())
        return struct.unpack_from("=i", fcntl.ioctl(self._socket, _GET_INDEX, request), 16)[0]

    def carries(self, name: str) -> bool:
        """Return whether a link and its far end are up; other signs of that come up to 1 s late."""
        answer = self._say(_GET_LINK, 0, _link(self.index(name)))
        flags = struct.unpack_from("=BxHiII", answer, _HEAD.size)[3]
        return flags & (_UP | _LOWER_UP) == _UP | _LOWER_UP

    def _neighbour(self, name: str, address: IPv4Address) -> bytes:
        head = struct.pack("=BxxxiHBB", socket.AF_INET, self.index(name), _PERMANENT, 0, 0)
        return head + _attribute(_TO, address.packed)

    def _new_link(self, attributes: bytes) -> None:
        self._ask(_NEW_LINK, _CREATE | _EXCLUSIVE, _link() + attributes)

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        """Send one command, and await its acknowledgement."""
        self._say(kind, _ACKNOWLEDGE | flags, body)

    def _say(self, kind: int, flags: int, body: bytes) -> bytes:
        """Send one message, and return the answer to it.

        Raises:
            OSError: the kernel refuses, or cannot do it.
        """
        self._number += 1
        size = _HEAD.size + len(body)
        self._socket.send(_HEAD.pack(size, kind, _REQUEST | flags, self._number, 0) + body)
        answer = self._socket.recv(1 << 16)
        _, kind, _, number, _ = _HEAD.unpack_from(answer)
        if number != self._number:
            raise OSError(f"netlink answered message {self._number} with {number}")
        error = -struct.unpack_from("=i", answer, _HEAD.size)[0] if kind == _ERROR else 0
        if error:
            raise OSError(error, os.strerror(error))
        return answer


def _link(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def _attribute(kind: int, value: bytes) -> bytes:
    padding = bytes(-len(value) % 4)
    return struct.pack("=HH", 4 + len(value), kind) + value + padding


def _text(name: str) -> bytes:
    return name.encode() + b"\0"
