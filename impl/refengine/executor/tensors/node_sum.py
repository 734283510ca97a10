"""Sums over two nodes: each rank exchanges its node's part with one rank of the other (SPEC S3).

The exchange is a session of `transport`: encrypted, only for a party with the key, in order, once,
and a cut that is shorter than the peer timeout loses nothing (SPEC Q18).
"""

import importlib
import os
import select
import time
from collections import deque
from typing import Any

from ...base.cleanup import append_atomically
from ...base.clock import Deadline, poll_milliseconds
from ...base.fds import Fd
from ...base.security import SocketFactory
from ...transport import Client, Gone, Server
from ..nodes.settings import SumLink

_RANK = 1  # of the connecting end in the session
_CLOSE_WITHIN = 0.2
_TOLD_WITHIN = 1.0
"""Seconds in which the pool ends a worker whose counterpart is gone; then the sum fails."""


class NodeSum:
    """One rank's end of the link. Both ends sum tensors of the same size in the same order."""

    def __init__(self, link: SumLink) -> None:
        self._link = link
        self._torch: Any = importlib.import_module("torch")
        self._inbox: deque[memoryview] = deque()
        self._gone: list[tuple[Gone | str, float]] = []
        self._has_come = False
        self._wakeup = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._peer = _RANK if link.listens else 0
        self._ends: list[Client | Server] = []
        append_atomically(self._ends, self._open)

    def reduce(self, tensor: Any) -> Any:
        """Add the other end's tensor of numbers to this one, in place; return it.

        The listening end's part comes first, floating ones are added as float64: both ends have
        the same bits.

        Raises:
            RuntimeError: the other end is gone, or sums a tensor of another size.
        """
        torch = self._torch
        whole = tensor.detach().cpu().contiguous()
        mine = whole.as_strided((whole.numel(),), (1,))  # also where one element has another stride
        body = bytearray(mine.view(torch.uint8).numpy()) if mine.numel() else bytearray()
        self._ends[0].post(self._peer, body)
        theirs = self._next()
        if len(theirs) != len(body):
            raise RuntimeError(
                f"the rank on the other node sums {len(theirs)} bytes where this one sums"
                f" {len(body)}"
            )
        if not body:
            return tensor
        other = torch.frombuffer(bytearray(theirs), dtype=mine.dtype)
        first, second = (mine, other) if self._link.listens else (other, mine)
        wide = torch.float64 if mine.is_floating_point() else mine.dtype
        return tensor.copy_((first.to(wide) + second.to(wide)).view(tensor.shape))

    def close(self) -> None:
        """Say goodbye to the other end. Idempotent."""
        while self._ends:
            self._ends.pop().close(_CLOSE_WITHIN)
        self._wakeup.close()

    def _open(self) -> Client | Server:
        link, sockets = self._link, SocketFactory()
        if link.listens:
            return Server(
                link.host,
                link.port,
                [_RANK],
                link.keys,
                self,
                sockets=sockets,
                peer_timeout=link.peer_timeout,
            )
        host = f"[{link.host}]" if ":" in link.host else link.host
        return Client(
            f"tcp://{host}:{link.port}",
            _RANK,
            link.keys,
            self,
            sockets=sockets,
            peer_timeout=link.peer_timeout,
            patience=link.patience,
        )

    def _next(self) -> memoryview:
        """Wait for the other end's part; a silent end is gone after the peer timeout."""
        poller = select.poll()
        poller.register(self._wakeup.fileno(), select.POLLIN)
        arrival = Deadline(self._link.patience, time.monotonic).remaining
        while not self._inbox:
            left = None if self._has_come else arrival()
            if self._gone:
                gone, since = self._gone[0]
                left = since + _TOLD_WITHIN - time.monotonic()
                if left <= 0:
                    raise RuntimeError(f"the rank on the other node {_how(gone)}")
            elif left is not None and left <= 0:
                raise RuntimeError("the rank on the other node has not come")
            poller.poll(None if left is None else poll_milliseconds(left) + 1)
            try:
                os.eventfd_read(self._wakeup.fileno())
            except BlockingIOError:
                continue
        return self._inbox.popleft()

    # -- the session's thread -----------------------------------------------------------------

    def arrived(self, rank: int) -> None:
        """See `transport.Listener`."""
        self._has_come = True
        self._wake()

    def message(self, rank: int, body: memoryview) -> None:
        """See `transport.Listener`."""
        self._inbox.append(body)
        self._wake()

    def gone(self, rank: int, how: Gone) -> None:
        """See `transport.Listener`."""
        self._gone.append((how, time.monotonic()))
        self._wake()

    def refused(self, rank: int, reason: str) -> None:
        """See `transport.Listener`; only the end that was refused has lost its sums."""
        if not self._link.listens:
            self._gone.append((reason, time.monotonic()))
            self._wake()

    def broken(self, rank: int) -> None:
        """See `transport.ServerListener`: nothing is lost yet."""

    def back(self, rank: int) -> None:
        """See `transport.ServerListener`."""

    def _wake(self) -> None:
        os.eventfd_write(self._wakeup.fileno(), 1)


def _how(gone: Gone | str) -> str:
    if isinstance(gone, str):
        return f"was not admitted: {gone}"
    if gone.kind == "silent":
        return f"was not heard of for {gone.seconds:g} s"
    return "has left" if gone.kind == "closed" else "has ended without a goodbye"
