"""The end of a peer process, noticed through its pidfd and its connection (SPEC Q6, Q7)."""

import contextlib
import os
import select
import socket
import struct
from collections.abc import Callable

from .security import peer_of
from .vigil import EpollVigil

_SO_PEERPIDFD = 77


class Peer:
    """A process at the other end of a control connection.

    The pidfd tells of its death even while a child it forked keeps the connection open; the
    connection's hang-up tells of a close while the process lives.
    """

    def __init__(self, role: str, link: socket.socket) -> None:
        self.role, self.link = role, link
        self.pid, self.uid = peer_of(link)
        self._vigil: EpollVigil | None = None
        self.pidfd = pidfd_of(link, self.pid)

    def watch(self, vigil: EpollVigil, gone: Callable[["Peer"], None]) -> None:
        """Call `gone` once, from the vigil, when this peer has ended or hung up.

        Said again, it changes nothing; if an exception strikes `gone`, that is called again.
        """
        self._vigil = vigil

        def news() -> None:
            if self.is_gone():
                gone(self)
                self.unwatch()

        vigil.watch(self.link.fileno(), news, select.EPOLLRDHUP)
        if self.pidfd >= 0:
            vigil.watch(self.pidfd, news)
        news()

    def unwatch(self) -> None:
        """Stop calling."""
        vigil, self._vigil = self._vigil, None
        if vigil is not None:
            vigil.ignore(self.link.fileno())
            vigil.ignore(self.pidfd)

    def is_gone(self) -> bool:
        """Whether the process ended or the connection hung up. Reads nothing that was sent."""
        return self.is_dead() or hung_up(self.link)

    def is_dead(self, seconds: float = 0.0) -> bool:
        """Whether the process ended, or does so within that time.

        A killed process closes its connections a moment before it is dead.
        """
        return self.pidfd < 0 or bool(_poll(self.pidfd, select.POLLIN, seconds))

    def signal(self) -> int | None:
        """The signal that killed it, where the kernel tells us (our own children)."""
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            status = os.waitid(os.P_PIDFD, self.pidfd, options)
        except OSError:
            return None
        killed = status is not None and status.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
        return status.si_status if status is not None and killed else None

    def close(self) -> None:
        """Hang up, for real even if a forked child holds a copy, and let go."""
        self.unwatch()
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)
        self.link.close()
        self.drop()

    def drop(self) -> None:
        """Let go of the process without touching the connection."""
        if self.pidfd >= 0:
            fd, self.pidfd = self.pidfd, -1
            os.close(fd)


def pidfd_of(link: socket.socket, pid: int) -> int:
    """A pidfd of the peer; -1 if it has already ended.

    Before Linux 6.5 the pid is turned into one by number, which is safe only if the
    connection is still up afterwards: then the number was not given to another process.
    """
    try:
        return struct.unpack("i", link.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4))[0]
    except ProcessLookupError:
        return -1
    except OSError:
        pass
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return -1
    if hung_up(link):
        os.close(fd)
        return -1
    return fd


def hung_up(link: socket.socket) -> bool:
    """Whether the other end of this connection is closed."""
    return bool(_poll(link.fileno(), select.POLLRDHUP) & (select.POLLRDHUP | select.POLLHUP))


def _poll(fd: int, events: int, seconds: float = 0.0) -> int:
    poller = select.poll()
    poller.register(fd, events)
    found = poller.poll(seconds * 1000)
    return found[0][1] if found else 0
