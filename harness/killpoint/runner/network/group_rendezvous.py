"""Rendezvous of a play's process group: an address for each rank, and a secret for all."""

from __future__ import annotations

import errno
import random
import secrets
import socket
from pathlib import Path

import msgspec

from killpoint.scenario import Scenario
from killpoint.targets.shapes import GroupShape, PipeShape

_TRIES = 200
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_GUESS = 32_768
_CHOICE = random.SystemRandom()


class Invitation(msgspec.Struct):
    """Parameters of a rank's join. They travel in an order and stand in no log."""

    shape: GroupShape
    host: str
    port: int
    secret: bytes
    pipe: PipeShape | None = None


class GroupRendezvous:
    """Rendezvous of one play's group, or of the ranks of its pipe."""

    def __init__(self, scenario: Scenario, elsewhere: str = "") -> None:
        """Choose a port; the scenario has a group or a pipe.

        Args:
            elsewhere: the host's address, if it lives in a network of its own: every port of
                that is free.
        """
        subject = scenario.subject()
        self.shape = subject if isinstance(subject, GroupShape) else GroupShape()
        self._pipe = subject if isinstance(subject, PipeShape) else None
        self.trouble = ""
        """Reason why no rendezvous is possible, if so: the machine may have no such address."""
        self.port = 0
        if elsewhere:
            self.shape = msgspec.structs.replace(self.shape, host=elsewhere)
            self.port = _LOWEST
        else:
            try:
                self.port = free_port(self.shape.host)
            except OSError as error:
                self.trouble = f"no place for a group at {self.shape.host}: {error}"
        self._secret = secrets.token_bytes(32)
        place = (self.shape.host, self.port)
        self.addresses = dict.fromkeys(scenario.roles(), place)
        """Address that each role is given. A relay changes a rank's entry before its ``join``; the
        host's entry is where it listens."""

    def invitation(self, role: str) -> bytes:
        """Return the encoded invitation by which the role joins."""
        host, port = self.addresses[role]
        return msgspec.msgpack.encode(Invitation(self.shape, host, port, self._secret, self._pipe))


def accepted(data: bytes) -> Invitation:
    """Decode an invitation, in its role."""
    return msgspec.msgpack.decode(data, type=Invitation)


def free_port(host: str) -> int:
    """Return a free port, below those that the system assigns to connections by itself.

    Between this look and the rank's own ``bind`` no connection of another process can take it.

    Raises:
        OSError: the machine has no such address, or no port was free.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(_TRIES):
        port = _CHOICE.randrange(_LOWEST, _highest())
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, port))
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
            else:
                return port
    raise OSError(f"no free port at {host} in {_TRIES} tries")


def _highest() -> int:
    try:
        low = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        low = _GUESS
    return low if low > _LOWEST + _TRIES else 65_536
