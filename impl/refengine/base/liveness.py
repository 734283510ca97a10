"""The end of a peer process, noticed through its pidfd and its connection (SPEC Q6, Q7)."""

import contextlib
import os
import select
import socket
import struct
from collections.abc import Callable

from .clock import poll_milliseconds
from .event_waiter import EpollWaiter
from .security import peer_of

_SO_PEERPIDFD = 77


class Peer:
    """A process at the other end of a control connection.

    The pidfd shows its death even while a child that it forked keeps the connection open; the
    connection's hang-up shows a close while the process lives.
    """

    def __init__(self, role: str, link: socket.socket) -> None:
        self.role, self.link = role, link
        self.pid, self.uid = peer_of(link)
        self._waiter: EpollWaiter | None = None
        self.pidfd = pidfd_of(link, self.pid)

    def watch(self, waiter: EpollWaiter, gone: Callable[["Peer"], None]) -> None:
        """Call `gone` once, from the waiter, when this peer has ended or hung up.

        Idempotent; if an exception strikes `gone`, that is called again.
        """
        self._waiter = waiter

        def news() -> None:
            if self.is_gone():
                gone(self)
                self.unwatch()

        waiter.watch(self.link.fileno(), news, select.EPOLLRDHUP)
        if self.pidfd >= 0:
            waiter.watch(self.pidfd, news)
        news()

    def unwatch(self) -> None:
        """Stop calling."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.unwatch(self.link.fileno())
            waiter.unwatch(self.pidfd)

    def is_gone(self) -> bool:
        """Return whether the process ended or the connection hung up, without reading from it."""
        return self.is_dead() or hung_up(self.link)

    def is_dead(self, seconds: float = 0.0) -> bool:
        """Return whether the process ended, or does so within `seconds`.

        A killed process closes its connections a moment before it is dead.
        """
        return self.pidfd < 0 or bool(_poll(self.pidfd, select.POLLIN, seconds))

    def signal(self) -> int | None:
        """Return the signal that killed the process, where known: for children of this process."""
        try:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            status = os.waitid(os.P_PIDFD, self.pidfd, options)
        except OSError:
            return None
        killed = status is not None and status.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
        return status.si_status if status is not None and killed else None

    def close(self) -> None:
        """Shut the connection down, even if a forked child has a copy, and release the process."""
        self.unwatch()
        with contextlib.suppress(OSError):
            self.link.shutdown(socket.SHUT_RDWR)
        self.link.close()
        self.drop()

    def drop(self) -> None:
        """Close the pidfd without touching the connection."""
        if self.pidfd >= 0:
            fd, self.pidfd = self.pidfd, -1
            os.close(fd)


def pidfd_of(link: socket.socket, pid: int) -> int:
    """Return a pidfd of the peer; -1 if it has already ended.

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
    """Return whether the other end of this connection is closed."""
    return bool(_poll(link.fileno(), select.POLLRDHUP) & (select.POLLRDHUP | select.POLLHUP))


def _poll(fd: int, events: int, seconds: float = 0.0) -> int:
    poller = select.poll()
    poller.register(fd, events)
    found = poller.poll(poll_milliseconds(seconds))
    return found[0][1] if found else 0
