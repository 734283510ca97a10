"""A worker's KV links to other replicas: blocks go and come while it steps (SPEC K8)."""

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
"""Seconds for both ends of a link to meet; both are told at the same time."""
_UNLINK_WITHIN = 0.2
"""Seconds to hand over what was sent; whoever waits for it prefills by itself."""


class KvLink(Protocol):
    """One end of a link, as `BlockPipe` is."""

    def send_kv(self, request_id: str, blocks: Sequence[Any], *, lease: float) -> None:
        """Returns once the other end has been given all of them."""
        ...

    def recv_kv(self, request_id: str, *, timeout: float | None) -> list[Any]:
        """All of them, in order."""
        ...

    def close(self, timeout: float | None = None) -> None:
        """Whoever waits is told."""
        ...


@dataclass(frozen=True)
class TransferEnded:
    """A transfer is over; nothing touches its blocks any more."""

    transfer: Transfer
    blocks: list[Any] | None = None
    """What came, for a fetch."""
    failure: str = ""


class WorkerKvLinks:
    """By name. Each transfer has a thread, so that none holds a step up; `take` tells of its end.

    A transfer ends within the `lease` (seconds), for good or ill.
    """

    def __init__(self, device: str, lease: float) -> None:
        self._device, self._lease = device, lease
        self._links: dict[str, KvLink] = {}
        self._ended: SimpleQueue[TransferEnded] = SimpleQueue()

    def link(self, name: str, host: str, port: int, rank: int, key: bytes) -> None:
        """Meet the other end; rank 0 sends and listens, rank 1 receives.

        Raises what `Pipe` does, DeadlinePassed if nobody came within two seconds.
        """
        self.unlink(name)
        pipe = Pipe(host, port, rank, 2, key=key, device=self._device, timeout=_LINK_WITHIN)
        self.adopt(name, BlockPipe(pipe))

    def adopt(self, name: str, kv_link: KvLink) -> None:
        """A link that is there."""
        self._links[name] = kv_link

    def unlink(self, name: str) -> None:
        """Its transfers fail. One that is not known is no matter."""
        kv_link = self._links.pop(name, None)
        if kv_link is not None:
            with contextlib.suppress(RefengineError):  # those who wait for it are told
                kv_link.close(_UNLINK_WITHIN)

    def close(self) -> None:
        """Part from all."""
        for name in list(self._links):
            self.unlink(name)

    def send(self, transfer: Transfer, blocks: Sequence[Any]) -> None:
        """Begin to send copies of its blocks."""

        def act(kv_link: KvLink) -> None:
            kv_link.send_kv(transfer.transfer_id, blocks, lease=self._lease)

        self._begin(transfer, act)

    def fetch(self, transfer: Transfer) -> None:
        """Begin to receive its blocks."""

        def act(kv_link: KvLink) -> list[Any]:
            return kv_link.recv_kv(transfer.transfer_id, timeout=self._lease)

        self._begin(transfer, act)

    def take(self, seconds: float) -> list[TransferEnded]:
        """What has ended since; if nothing has, wait so long for the first."""
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
        except BaseException as error:  # whatever it is: the replica must hear of it
            ended = TransferEnded(transfer, failure=f"{type(error).__name__}: {error}")
        self._ended.put(ended)
