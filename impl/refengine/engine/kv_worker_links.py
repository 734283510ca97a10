"""A worker's KV links to other replicas: blocks are transferred while it steps (SPEC K8)."""

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from ..errors import RefengineError
from ..pipe import Pipe
from ..pipe.blocks import BlockPipe
from .model.batching import Transfer

_LINK_WITHIN = 2.0
"""Seconds for both ends of a link to connect; both are asked to at the same time."""
_UNLINK_WITHIN = 0.2
"""Seconds to hand over sent blocks; a receiver that still waits then prefills by itself."""


class KvLink(Protocol):
    """One end of a link; `BlockPipe` is one."""

    def send_kv(self, request_id: str, blocks: Sequence[Any], *, lease: float) -> None:
        """Send the blocks; returns once the other end has all of them."""
        ...

    def recv_kv(self, request_id: str, *, timeout: float | None) -> list[Any]:
        """Receive all blocks, in order."""
        ...

    def close(self, timeout: float | None = None) -> None:
        """Close this end; calls that wait fail."""
        ...


@dataclass(frozen=True)
class TransferEnded:
    """A transfer has ended; nothing accesses its blocks any more."""

    transfer: Transfer
    blocks: list[Any] | None = None
    """Received blocks, for a fetch."""
    failure: str = ""


class WorkerKvLinks:
    """A worker's links, by name. Each transfer has a thread, so none delays a step.

    `take` returns ended transfers. A transfer ends within `lease` seconds, whole or failed.
    """

    def __init__(self, device: str, lease: float) -> None:
        self._device, self._lease = device, lease
        self._links: dict[str, KvLink] = {}
        self._ended: SimpleQueue[TransferEnded] = SimpleQueue()

    def link(self, name: str, host: str, port: int, rank: int, key: bytes) -> None:
        """Connect to the other end; rank 0 sends and listens, rank 1 receives.

        Raises the errors of `Pipe`; DeadlinePassed if the other end did not come within 2 s.
        """
        self.unlink(name)
        pipe = Pipe(host, port, rank, 2, key=key, device=self._device, timeout=_LINK_WITHIN)
        self.adopt(name, BlockPipe(pipe))

    def adopt(self, name: str, kv_link: KvLink) -> None:
        """Add a link that is up."""
        self._links[name] = kv_link

    def unlink(self, name: str) -> None:
        """Close a link; its transfers fail. An unknown one is ignored."""
        kv_link = self._links.pop(name, None)
        if kv_link is not None:
            with contextlib.suppress(RefengineError):  # its waiting calls get the error
                kv_link.close(_UNLINK_WITHIN)

    def close(self) -> None:
        """Close all links."""
        for name in list(self._links):
            self.unlink(name)

    def send(self, transfer: Transfer, blocks: Sequence[Any]) -> None:
        """Begin to send copies of the transfer's blocks."""

        def act(kv_link: KvLink) -> None:
            kv_link.send_kv(transfer.transfer_id, blocks, lease=self._lease)

        self._begin(transfer, act)

    def fetch(self, transfer: Transfer) -> None:
        """Begin to receive the transfer's blocks."""

        def act(kv_link: KvLink) -> list[Any]:
            return kv_link.recv_kv(transfer.transfer_id, timeout=self._lease)

        self._begin(transfer, act)

    def take(self, seconds: float) -> list[TransferEnded]:
        """Return the transfers that have ended; wait up to so many seconds for the first."""
        found: list[TransferEnded] = []
        with contextlib.suppress(Empty):
            found.append(self._ended.get(timeout=seconds) if seconds else self._ended.get_nowait())
            while True:
                found.append(self._ended.get_nowait())
        return found

    def _begin(self, transfer: Transfer, act: Callable[[KvLink], list[Any] | None]) -> None:
        kv_link = self._links.get(transfer.link)
        if kv_link is None:
            self._ended.put(
                TransferEnded(transfer, failure=f"there is no KV link {transfer.link!r}")
            )
            return
        name = f"kv {transfer.transfer_id}"
        thread = threading.Thread(target=self._run, args=(transfer, kv_link, act), name=name)
        thread.daemon = True
        thread.start()

    def _run(
        self, transfer: Transfer, kv_link: KvLink, act: Callable[[KvLink], list[Any] | None]
    ) -> None:
        try:
            ended = TransferEnded(transfer, act(kv_link))
        except BaseException as error:  # of any kind: the replica must learn of it
            ended = TransferEnded(transfer, failure=f"{type(error).__name__}: {error}")
        self._ended.put(ended)
