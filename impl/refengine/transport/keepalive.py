"""A TCP connection's signs of life, as the kernel knows them (SPEC Q18).

The kernel knows when bytes last came in, so a peer whose Python does not run (a long native call)
still counts as alive: libzmq answers heartbeats by itself.
"""

import contextlib
import os
import select
import socket
import struct
from collections.abc import Iterable

from ..base.clock import monotonic

_LAST_DATA_RECEIVED = 52  # tcpi_last_data_recv, ms: after 8 single bytes and 11 words (linux/tcp.h)
_GIVEN_UP_WITHIN = 1.0
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class TcpKeepalive:
    """Watches a connection that libzmq owns, through a descriptor of its own."""

    def __init__(self, fd: int, address: str) -> None:
        """OSError if this is no connection with that address (any more)."""
        self._theirs = fd
        self._socket = socket.socket(fileno=os.dup(fd))
        self._inode = os.fstat(self._socket.fileno()).st_ino
        try:
            self.quiet()
            if not self._is_with(address):
                raise OSError(f"{fd} is another's by now")
        except (OSError, struct.error) as error:
            self._socket.close()
            raise OSError(f"there is no such connection: {error}") from None

    def _is_with(self, address: str) -> bool:
        """Return whether this has the address's port at one end: `end` would hurt another's."""
        try:
            ends = self._socket.getsockname(), self._socket.getpeername()
        except OSError:
            return True  # it is not connected any more: nothing can be done to it
        return int(address.rpartition(":")[2]) in (end[1] for end in ends)

    def fileno(self) -> int:
        """Return the descriptor, for a poll with `EVENTS`."""
        return self._socket.fileno()

    EVENTS = select.POLLRDHUP

    def hung_up(self) -> bool:
        """Return whether the peer closed or reset the connection."""
        poller = select.poll()
        poller.register(self._socket, self.EVENTS)
        return any(events & _GONE for _, events in poller.poll(0))

    def quiet(self) -> float:
        """Return the seconds since a byte last came in."""
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        return struct.unpack_from("=I", info, _LAST_DATA_RECEIVED)[0] / 1000

    def close(self) -> None:
        """Stop watching."""
        self._socket.close()

    def end(self) -> None:
        """Have libzmq read the connection's end, and give it up; stop watching."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
        self.close()

    def is_given_up(self) -> bool:
        """Return whether libzmq has closed its descriptor; also asked after `close`."""
        try:
            return os.fstat(self._theirs).st_ino != self._inode
        except OSError:
            return True

    def abandon(self) -> None:
        """Close the connection in a fork's copy, or its end would not be noticed."""
        self.close()
        with contextlib.suppress(OSError):
            os.close(self._theirs)


def await_given_up(connections: "Iterable[TcpKeepalive | None]") -> None:
    """Wait until libzmq has given up these connections, which have ended; 1 s at most.

    Only then is their socket closed. Closed before, with part of a message not yet sent, it aborts
    the process if its connection breaks just then: libzmq takes the rest of that message from a
    pipe that is closed already (zeromq/libzmq#3442).
    """
    left, until = [each for each in connections if each is not None], monotonic() + _GIVEN_UP_WITHIN
    while (left := [each for each in left if not each.is_given_up()]) and monotonic() < until:
        select.poll().poll(1)  # nothing tells when a descriptor is closed
