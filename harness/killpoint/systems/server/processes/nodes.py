"""Two nodes for one server: hosts of the play's own, joined by a link that can be cut.

Each is a network namespace with an address (:mod:`killpoint.runner.network.netns`); the second node
has a /dev/shm of its own, too. Clients live in the machine's own namespace, so a thread that has
entered the first node makes their connections: they are as if made on that node.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from killpoint.errors import CannotWork
from killpoint.runner.network import netns
from killpoint.runner.network.netns import CENTRE, LINK, Hosts, Seen
from killpoint.runner.protocol import ForkRole

__all__ = ["FOLLOWER", "HEAD", "LINK", "Nodes"]

HEAD, FOLLOWER = CENTRE, "follower"
_ENTER = str(Path(__file__).with_name("enter_node.py"))
_KEEPER = (
    "import sys; from pathlib import Path; from killpoint.runner.network import netns;"
    " netns.keep(Path(sys.argv[1]), sys.stdin.buffer.read())"
)
_CONNECTS_WITHIN = 5.0


class Nodes:
    """The two nodes of one play."""

    def __init__(self, folder: Path) -> None:
        """Make the nodes.

        Raises:
            CannotWork: this machine does not allow it.
        """
        self._hosts = Hosts(_OwnKeeper(), folder, [FOLLOWER])
        if self._hosts.refused:
            self._hosts.close()
            raise CannotWork(self._hosts.refused)
        self.head, self.follower = self._hosts.address, self._hosts.address_of(FOLLOWER)
        self._inside = ThreadPoolExecutor(1, initializer=self._enter)

    def argv(self, node: str, argv: list[str]) -> list[str]:
        """Return the command line that runs another one on a node."""
        netns_fd = str(self._hosts.netns_fd(node))
        own_shm = "own-shm" if node == FOLLOWER else "shm"
        return [sys.executable, "-I", _ENTER, str(self._hosts.pid), netns_fd, own_shm, *argv]

    def connection(self, host: str, port: int) -> socket.socket:
        """Connect from the first node to an address of its own; raises OSError as usual."""
        return self._inside.submit(_connect, host, port).result()

    def cut(self) -> None:
        """Cut the cable between the two."""
        self._hosts.cut([FOLLOWER], "both")

    def heal(self) -> None:
        """Mend the cable."""
        self._hosts.heal([FOLLOWER])

    def look(self) -> Seen:
        """Return the state of the second node's link."""
        return self._hosts.look([FOLLOWER])[FOLLOWER]

    def close(self) -> None:
        """Let the nodes go; each ends with the last process that lives in it."""
        self._inside.shutdown()
        self._hosts.close()

    def _enter(self) -> None:
        netns.join(self._hosts.pid, self._hosts.netns_fd(HEAD))


def _connect(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), _CONNECTS_WITHIN)


class _OwnKeeper:
    """Starter of the hosts' keeper, as a process of ours."""

    def fork(self, order: ForkRole) -> int:
        """Start the keeper; return its pid."""
        command = [sys.executable, "-c", _KEEPER, order.folder]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, start_new_session=True, env={"PYTHONPATH": _path()}
        )
        assert self._process.stdin is not None
        self._process.stdin.write(order.request)
        self._process.stdin.close()
        return self._process.pid

    def pause(self, seconds: float) -> None:
        """Wait for a moment, and reap the keeper if it has ended."""
        self._process.poll()
        time.sleep(seconds)


def _path() -> str:
    return ":".join(sys.path)
