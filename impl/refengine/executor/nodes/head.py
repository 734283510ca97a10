"""The follower as the head sees it: what it is told, what it reports, and its end."""

import os
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...base.cleanup import append_atomically
from ...base.fds import Fd
from ...base.security import Keys, SocketFactory, is_ipv6
from ...queue import MessageQueue
from ...transport import Gone, Server
from ..errors import Failure, StartFailed, WorkerDied
from ..settings import PoolSettings, WorkerSpec
from ..workers import PoolShape
from .errors import NodeLost, how_it_went
from .protocol import (
    FOLLOWER,
    Leave,
    Left,
    RequestQueue,
    StartRefused,
    StartWorkers,
    ToFollower,
    WorkerEnded,
    WorkersReady,
    decode,
    encode,
)
from .settings import NodeContext, NodeSettings, SumLink, ranks_of

_CLOSE_WITHIN = 0.2


@dataclass(frozen=True)
class _Arrived:
    """The follower has joined, and is to be told which workers to start."""


class FollowerNode:
    """The head's end of the session with the other node. `hear` belongs to the pool's monitor.

    Raises ValueError for a pool that cannot be parted between two nodes, TypeError for a worker
    class that is not named.
    """

    def __init__(
        self, nodes: NodeSettings, shape: PoolShape, spec: WorkerSpec, settings: PoolSettings
    ) -> None:
        if shape.world_size % 2 or shape.tensor_parallel != shape.world_size:
            raise ValueError("two nodes need an even number of workers, all of one stage")
        if not isinstance(spec.worker, str):
            raise TypeError("on two nodes a worker is named, as module:Class")
        self._nodes, self._spec = nodes, spec
        self._shape = shape
        self._settings = replace(settings, nodes=None, failure_callbacks=[])
        self._links: list[tuple[SumLink, SumLink]] = []
        self._servers: list[Server] = []
        self._events: deque[Any] = deque()
        self._wakeup = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._came = self._broken = False
        self._left_because = ""
        self.replies: tuple[Any, ...] = ()
        """Handles of the queues of replies of the follower's workers, once they are READY."""
        self.ended = True
        """True while no follower is there: none has come yet, or it is gone."""

    @property
    def ranks(self) -> range:
        """Ranks that the follower has."""
        return ranks_of(self._shape.world_size, head=False)

    def start(self) -> list[NodeContext]:
        """Listen for the follower; return the contexts of the head's own workers.

        Raises zmq.ZMQError, or OSError, if it cannot listen at the head's address.
        """
        nodes, count = self._nodes, len(self.ranks)
        ports = _free_ports(nodes.head, count)
        self._links = [self._sum_links(port) for port in ports]
        append_atomically(self._servers, self._listen)
        ranks = ranks_of(self._shape.world_size, head=True)
        timeout = nodes.peer_timeout
        return [NodeContext(ranks, True, nodes.head, timeout, own) for own, _ in self._links]

    def request_queue(self, readers: int, max_chunk_bytes: int, max_chunks: int) -> MessageQueue:
        """Return the queue of requests, whose readers are the workers of both nodes."""
        nodes = self._nodes
        return MessageQueue(
            readers + len(self.ranks),
            readers,
            None,
            max_chunk_bytes,
            max_chunks,
            connect_ip=nodes.head,
            peer_timeout=nodes.peer_timeout,
        )

    def connect(self, requests: MessageQueue) -> None:
        """Hand the queue of requests to the follower's workers."""
        self._say(RequestQueue(requests.export_handle()))

    def leave(self) -> None:
        """Ask the follower to end its workers, and to leave."""
        self._say(Leave())

    def fileno(self) -> int:
        """Descriptor that is readable when there is something to `hear`."""
        return self._wakeup.fileno()

    @property
    def ready(self) -> bool:
        """True once every worker of the follower is READY."""
        return bool(self.replies)

    @property
    def exiting(self) -> bool:
        """True if the follower has reported its end, or its connection is broken."""
        return self._broken or bool(self._events)

    def missing(self) -> str:
        """Return what the start waits for, in words."""
        came = "to be READY" if self._came else f"to join at {self._nodes.head}:{self._nodes.port}"
        return f"node 1 {came}"

    def hear(self) -> list[Failure]:
        """Take what the follower has reported; return the failures that end the pool."""
        try:
            os.eventfd_read(self._wakeup.fileno())
        except BlockingIOError:
            return []
        failures: list[Failure] = []
        while self._events:
            failures += self._take(self._events[0])
            self._events.popleft()
        return failures

    def close(self) -> None:
        """Say goodbye, and stop listening. Idempotent."""
        while self._servers:
            self._servers.pop().close(_CLOSE_WITHIN)
        self._wakeup.close()

    def _take(self, event: Any) -> list[Failure]:
        match event:
            case _Arrived():
                self.ended, self._came = False, True
                theirs = tuple(link for _, link in self._links)
                self._say(StartWorkers(self._shape, self._spec, self._settings, theirs))
            case WorkersReady(replies):
                self.replies = replies
            case StartRefused(rank, pid, reason):
                return [lambda _: StartFailed(rank, pid, f"on node 1: {reason}")]
            case WorkerEnded(rank, pid, signal, status, why):
                return [lambda what: WorkerDied(rank, pid, what, signal, status, why, FOLLOWER)]
            case Left(reason):
                self._left_because = f"has left: {reason}"
            case Gone():
                self.ended = True
                role = f"node 1 (pid {event.pid} there)"
                how = self._left_because or how_it_went(event)
                return [lambda what: NodeLost(role, event.pid, how, what)]
            case _:
                role, how = "node 1", f"has sent what a follower does not say: {event!r}"
                return [lambda what: NodeLost(role, 0, how, what)]
        return []

    def _say(self, message: ToFollower) -> None:
        for server in self._servers:
            server.post(FOLLOWER, encode(message))

    def _listen(self) -> Server:
        nodes = self._nodes
        return Server(
            nodes.head,
            nodes.port,
            [FOLLOWER],
            nodes.keys,
            self,
            sockets=SocketFactory(),
            peer_timeout=nodes.peer_timeout,
        )

    def _sum_links(self, port: int) -> tuple[SumLink, SumLink]:
        nodes, keys = self._nodes, Keys.fresh()
        patience = self._settings.start_timeout
        own = SumLink(True, nodes.head, port, keys, nodes.peer_timeout, patience)
        return own, replace(own, listens=False)

    # -- the session's thread -----------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """See `transport.Listener`."""
        self._report(_Arrived())

    def message(self, rank: int, body: memoryview) -> None:
        """See `transport.Listener`."""
        self._report(decode(body))

    def gone(self, rank: int, how: Gone) -> None:
        """See `transport.Listener`."""
        self._report(how)

    def refused(self, rank: int, reason: str) -> None:
        """See `transport.Listener`; whoever has the secret and is refused learns the reason."""

    def broken(self, rank: int) -> None:
        """See `transport.ServerListener`."""
        self._broken = True

    def back(self, rank: int) -> None:
        """See `transport.ServerListener`."""
        self._broken = False

    def _report(self, event: Any) -> None:
        self._events.append(event)
        os.eventfd_write(self._wakeup.fileno(), 1)


def _free_ports(host: str, count: int) -> Sequence[int]:
    """Return ports of an address at which no process listens now."""
    family = socket.AF_INET6 if is_ipv6(host) else socket.AF_INET
    held = [socket.socket(family) for _ in range(count)]
    try:
        for each in held:
            each.bind((host, 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
