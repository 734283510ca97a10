"""Parent and worker's private line: small whole messages, descriptors, and each other's end."""

import array
import contextlib
import pickle
import select
import socket
import struct
from typing import Any

from ..liveness import pidfd_of
from ..security import peer_of
from .held import End

MOST_BYTES = 128 << 10
"""Of one message; a longer text must be cut by its sender."""
_DESCRIPTORS = 253  # the most that the kernel passes at once


def pair() -> tuple["Link", "Link"]:
    """The parent's end and the worker's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Link(ours), Link(theirs)


class Link:
    """One end. A message arrives whole or not at all, whenever the other side dies."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def fileno(self) -> int:
        """For polling; -1 once closed."""
        return self.sock.fileno()

    def say(self, message: object, *descriptors: int) -> bool:
        """Send; False if nobody is there to hear it, or the other side does not listen."""
        data = [pickle.dumps(message)]
        passed = array.array("i", descriptors)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if descriptors else []
        try:
            self.sock.sendmsg(data, rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            return False
        return True

    def hear(self) -> tuple[Any, list[int]]:
        """Wait for a message and its descriptors. EOFError once the other side has closed."""
        room = socket.CMSG_SPACE(_DESCRIPTORS * struct.calcsize("i"))
        take = self.sock.recvmsg
        try:
            try:
                data, rights, _, _ = take(MOST_BYTES, room, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:  # it closed before it had heard all; what it said is there
                data, rights, _, _ = take(MOST_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise EOFError("the link is broken") from error
        if not data:
            raise EOFError("the other side has closed the link")
        fds = [fd for _, _, raw in rights for (fd,) in struct.iter_unpack("i", raw)]
        return pickle.loads(data), fds

    def has_news(self, seconds: float | None = 0.0) -> bool:
        """Whether there is something to hear, the end included."""
        poller = select.poll()
        poller.register(self.sock, select.POLLIN)
        return bool(poller.poll(None if seconds is None else max(0.0, seconds) * 1000))

    def maker(self) -> End:
        """A pidfd of the process that made this pair. Ask for it while that lives."""
        return End(pidfd_of(self.sock, peer_of(self.sock)[0]))

    def close(self) -> None:
        """Idempotent."""
        with contextlib.suppress(OSError):
            self.sock.close()
