"""A TCP connection's signs of life, as the kernel knows them (SPEC Q18).

The kernel knows when bytes last came in, so a peer whose Python does not run (a long native call)
still counts as alive: libzmq answers heartbeats by itself.
"""

import contextlib
import os
import select
import socket
import struct

_LAST_DATA_RECEIVED = 52  # tcpi_last_data_recv, ms: after 8 single bytes and 11 words (linux/tcp.h)
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class TcpKeepalive:
    """Watches a connection that libzmq owns, through a descriptor of its own."""

    def __init__(self, fd: int) -> None:
        """OSError if there is no such connection (any more)."""
        self._theirs = fd
        self._socket = socket.socket(fileno=os.dup(fd))
        try:
            self.quiet()
        except (OSError, struct.error):
            self._socket.close()
            raise OSError("that is no TCP connection") from None

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

    def abandon(self) -> None:
        """Close the connection in a fork's copy, or its end would not be noticed."""
        self.close()
        with contextlib.suppress(OSError):
            os.close(self._theirs)
