"""KV blocks of requests, over the pipe between two ranks: taken whole within a lease, or failed.

The sender alone decides: a receiver that has all blocks, and a caller for them, reports READY;
only blocks that the sender then grants are served. So blocks that it has given up, their lease
over, are never served, however late anything comes, and neither side's clock is compared with
the other's.
"""

import contextlib
import math
import secrets
import threading
from collections.abc import Sequence
from functools import partial
from multiprocessing.util import Finalize
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import ref

from ..base.cleanup import ServingThread, close_collected
from ..base.clock import Clock, Deadline, monotonic
from ..errors import DeadlinePassed, RefengineError
from .block_receiver import BlockReceiver, Incoming
from .errors import BlocksFailed, LeaseEnded, PipeClosed, TransferFailed
from .protocol import (
    TRANSFER_ID_BYTES,
    BlockLabel,
    BlockMessage,
    request_digest,
    shape_checksum,
)

if TYPE_CHECKING:
    import torch

_POLL_INTERVAL = 1.0
"""Seconds between checks, by a call that waits, that the receiving thread still lives."""
_EXIT_SECONDS = 2.0
_JOIN = 2.0
"""Seconds for the thread to see that the pipe is closed."""


class Carrier(Protocol):
    """Operations that blocks need of a pipe between two ranks."""

    def send_labelled(self, tensor: Any, label: bytes, timeout: float | None = None) -> None:
        """Send a snapshot of a tensor, with a label."""
        ...

    def recv_labelled(self, timeout: float | None = None) -> tuple[Any, bytes]:
        """Return the next tensor and its label."""
        ...

    def close(self, timeout: float | None = None) -> None:
        """Close the pipe; wake a call that receives."""
        ...


class _Offer:
    """Transfer that its sender waits for. `heard` gets the other side's messages about it."""

    def __init__(self) -> None:
        self.heard: SimpleQueue[BlockMessage | None] = SimpleQueue()


class BlockPipe:
    """Sends and receives blocks over a pipe that it owns: it alone uses the pipe, and closes it.

    Any number of threads may send and receive. At most `most` bytes are kept of blocks not asked
    for yet; a transfer for which there is no room is failed.
    """

    def __init__(self, pipe: Carrier, *, most: int = 1 << 32, clock: Clock = monotonic) -> None:
        self._pipe, self._clock = pipe, clock
        self._block_receiver = BlockReceiver(most, shape_checksum)
        self._offers: dict[bytes, _Offer] = {}
        self._waiting: dict[SimpleQueue[None], None] = {}
        self._end: BaseException | None = None
        self._thread = ServingThread(
            _run, ref(self), pipe, self._block_receiver, clock, name="refengine-blocks"
        )
        # Before the pipe's own: that one must not end first, at exit.
        closing = partial(_leave, pipe), _EXIT_SECONDS
        self._finalizer = Finalize(self, close_collected, closing, exitpriority=21)
        self._thread.start()

    def send_kv(self, request_id: str, blocks: "Sequence[torch.Tensor]", *, lease: float) -> None:
        """Return once the other side has been granted all blocks, for a `recv_kv` that waits.

        Raises by the end of the lease, LeaseEnded if no call asked for them. After either, nothing
        reads the blocks any more, and no part of a failed transfer is ever served. ValueError for a
        lease without an end.
        """
        if not lease < math.inf:
            raise ValueError(f"a lease ends some time, not after {lease} s")
        until = self._clock() + lease
        transfer, request = secrets.token_bytes(TRANSFER_ID_BYTES), request_digest(request_id)
        offer, granted = _Offer(), False
        try:
            self._offers[transfer] = offer
            self._send_all(transfer, request, blocks, until)
            said = self._hear(offer, until)
            if said is BlockMessage.READY:
                self._send_message(BlockMessage.GRANT, transfer, self._left(until))
                granted = True
            elif said is BlockMessage.FAILED:
                raise BlocksFailed(request_id, "the receiver did not get them whole")
            elif self._end is not None:
                raise self._end
        except DeadlinePassed:
            pass
        finally:
            self._offers.pop(transfer, None)
            if not granted:
                self._give_up(transfer)
        if not granted:
            raise LeaseEnded(request_id, lease)

    def recv_kv(self, request_id: str, *, timeout: float | None) -> "list[torch.Tensor]":
        """Return all blocks of a request, in order; BlocksFailed, once, if their transfer failed.

        DeadlinePassed: nothing changed. Blocks not asked for are dropped when their lease ends.
        """
        left, news = Deadline(timeout, self._clock).remaining, SimpleQueue[None]()
        request = request_digest(request_id)
        taken: list[Incoming] = []
        try:
            self._waiting[news] = None
            while True:
                found = self._block_receiver.of(request)
                if found is not None and found.state in ("failed", "granted"):
                    if self._block_receiver.take(found, taken):
                        served = self._served(found, request_id)
                        self._waiting.pop(news, None)
                        return served  # no `finally`: struck in one, it would be lost
                    continue
                if found is not None and found.state == "whole" and not found.asked:
                    self._send_message(BlockMessage.READY, found.transfer, left())
                    found.asked = True
                if self._end is not None:
                    raise self._end
                self._wait(news, left(), request_id, timeout)
        except BlocksFailed:
            self._waiting.pop(news, None)
            raise
        except BaseException:
            self._block_receiver.put_back(taken)
            self._waiting.pop(news, None)
            raise

    def close(self, timeout: float | None = None) -> None:
        """Close the pipe, too. Calls that wait raise."""
        try:
            self._pipe.close(timeout)
        finally:
            self._finalizer.cancel()
            if threading.current_thread() is not self._thread:
                self._thread.join(_JOIN if timeout is None else timeout + _JOIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _served(self, found: Incoming, request_id: str) -> list[Any]:
        if found.state == "failed":
            self._give_up(found.transfer)
            raise BlocksFailed(request_id, found.reason)
        return found.blocks

    def _send_all(
        self, transfer: bytes, request: bytes, blocks: Sequence[Any], until: float
    ) -> None:
        for index, block in enumerate(blocks or (None,)):
            left = self._left(until)
            label = BlockLabel(
                BlockMessage.BLOCK,
                transfer,
                request,
                index,
                len(blocks),
                left,
                shape_checksum(block),
            )
            self._pipe.send_labelled(block, label.pack(), left)

    def _hear(self, offer: _Offer, until: float) -> BlockMessage | None:
        """Return the receiver's message; None if none comes in time, or the pipe has ended."""
        if self._end is not None:
            return None
        while True:
            left = self._left(until)
            try:
                return offer.heard.get(timeout=min(left, _POLL_INTERVAL))
            except Empty:
                if left <= _POLL_INTERVAL:
                    return None
                self._look()

    def _send_message(self, message: BlockMessage, transfer: bytes, timeout: float | None) -> None:
        self._pipe.send_labelled(None, BlockLabel(message, transfer).pack(), timeout)

    def _give_up(self, transfer: bytes) -> None:
        """Send FAILED, if the pipe still works: else the other side learns by the lease."""
        with contextlib.suppress(RefengineError):
            self._send_message(BlockMessage.FAILED, transfer, 0.0)

    def _left(self, until: float) -> float:
        return max(0.0, until - self._clock())

    def _wait(
        self, news: SimpleQueue[None], seconds: float | None, request_id: str, timeout: float | None
    ) -> None:
        if seconds is not None and seconds <= 0:
            raise DeadlinePassed(f"the blocks of {request_id!r}", timeout or 0)
        try:
            news.get(timeout=_POLL_INTERVAL if seconds is None else min(seconds, _POLL_INTERVAL))
        except Empty:
            self._look()

    def _look(self) -> None:
        """Notice a thread that was struck where it could not report its own end (R9)."""
        if not self._thread.is_alive():
            self.finish(None)

    # -- the thread that receives -------------------------------------------------------------

    def heard(self, block: Any, raw: bytes) -> None:
        """Handle one message."""
        label = BlockLabel.unpack(raw)
        if label is None:
            return
        if label.message is BlockMessage.BLOCK:
            self._block_receiver.block(label, block, self._clock())
        elif label.message is BlockMessage.GRANT:
            self._block_receiver.granted(label.transfer)
        else:
            offer = self._offers.get(label.transfer)
            if offer is not None:
                offer.heard.put(label.message)
            elif label.message is BlockMessage.FAILED:
                self._block_receiver.failed(label.transfer)
        self._ring()

    def _ring(self) -> None:
        for news in list(self._waiting):
            news.put(None)

    def finish(self, end: BaseException | None) -> None:
        """End every wait: nothing comes any more. May be called again."""
        if self._end is None:
            self._end = end or PipeClosed("this rank")
        self._ring()
        for offer in list(self._offers.values()):
            offer.heard.put(None)


def _run(
    whose: "ref[BlockPipe]", pipe: Carrier, block_receiver: BlockReceiver, clock: Clock
) -> None:
    """Receive until the pipe ends, without keeping a `BlockPipe` that was dropped (L1)."""
    end: BaseException | None = None
    try:
        while True:
            _pass_on(whose, *_next(pipe, block_receiver, clock))
    except BaseException as error:  # of any kind: calls that wait raise it
        end = error
    finally:
        blocks = whose()
        if blocks is not None:
            blocks.finish(end)


def _next(pipe: Carrier, block_receiver: BlockReceiver, clock: Clock) -> tuple[Any, bytes]:
    """Return the next message; meanwhile end transfers whose lease is over."""
    while True:
        try:
            return pipe.recv_labelled(block_receiver.expire(clock()))
        except (DeadlinePassed, TransferFailed):
            continue  # a missing block is noticed by the one after it, or by the lease


def _pass_on(whose: "ref[BlockPipe]", block: Any, raw: bytes) -> None:
    blocks = whose()
    if blocks is None:
        raise PipeClosed("this rank")
    blocks.heard(block, raw)


def _leave(pipe: Carrier, seconds: float) -> None:
    """Close at exit, where no caller is left to learn what was lost."""
    with contextlib.suppress(Exception):
        pipe.close(seconds)
