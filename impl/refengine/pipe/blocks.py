"""KV blocks of requests, over the pipe between two ranks: taken whole within a lease, or failed.

The sender alone decides: a receiver that has all blocks, and somebody who wants them, says so;
only what the sender then grants is served. So what it has given up, its lease over, is never
served, however late anything comes, and neither side's clock is compared with the other's.
"""

import contextlib
import secrets
import threading
from collections.abc import Sequence
from multiprocessing.util import Finalize
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import ref

from ..base.clock import Clock, Deadline, monotonic
from ..errors import DeadlinePassed, RefengineError
from .block_arrivals import BlockArrivals, Incoming
from .block_labels import ID_BYTES, BlockLabel, Say, digest_of, looks_of
from .errors import BlocksFailed, LeaseEnded, PipeClosed, TransferFailed

if TYPE_CHECKING:
    import torch

_A_LOOK = 1.0
"""Seconds until whoever waits looks whether the thread that would tell it still lives."""
_EXIT_SECONDS = 2.0
_JOIN = 2.0
"""Seconds for the thread to see that the pipe is closed."""


class Carrier(Protocol):
    """A pipe between two ranks, as blocks need it."""

    def send_labelled(self, tensor: Any, label: bytes, timeout: float | None = None) -> None:
        """Send a snapshot."""
        ...

    def recv_labelled(self, timeout: float | None = None) -> tuple[Any, bytes]:
        """The next one."""
        ...

    def close(self, timeout: float | None = None) -> None:
        """Wakes whoever receives."""
        ...


class _Offer:
    """A transfer that its sender waits for. `heard` gets what the other side says of it."""

    def __init__(self) -> None:
        self.heard: SimpleQueue[Say | None] = SimpleQueue()


class BlockPipe:
    """Takes the pipe over: nobody else sends or receives by it, and it is closed with this.

    Any number of threads may send and receive. `most` bytes are kept of blocks that nobody has
    asked for yet; a transfer for which there is no room is failed.
    """

    def __init__(self, pipe: Carrier, *, most: int = 1 << 32, clock: Clock = monotonic) -> None:
        self._pipe, self._clock = pipe, clock
        self._arrivals = BlockArrivals(most, looks_of)
        self._offers: dict[bytes, _Offer] = {}
        self._waiting: dict[SimpleQueue[None], None] = {}
        self._end: BaseException | None = None
        self._thread = threading.Thread(
            target=_run, args=(ref(self), pipe, self._arrivals, clock), daemon=True
        )
        self._thread.name = "refengine-blocks"
        # Before the pipe's own: that one must not end first, at exit.
        self._finalizer = Finalize(self, _leave, (pipe,), exitpriority=21)
        self._thread.start()

    def send_kv(self, request_id: str, blocks: "Sequence[torch.Tensor]", *, lease: float) -> None:
        """Returns once the other side has been given all of them, for a `recv_kv` that waits.

        Raises by the end of the lease, LeaseEnded if nobody asked. After either, nothing reads
        the blocks any more, and no part of a failed transfer is ever served.
        """
        until = self._clock() + lease
        transfer, request = secrets.token_bytes(ID_BYTES), digest_of(request_id)
        offer, granted = _Offer(), False
        try:
            self._offers[transfer] = offer
            self._send_all(transfer, request, blocks, until)
            said = self._hear(offer, until)
            if said is Say.READY:
                self._say(Say.GRANT, transfer, self._left(until))
                granted = True
            elif said is Say.FAILED:
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
        """All blocks of a request, in order. BlocksFailed, once, if its transfer came to nothing.

        DeadlinePassed: nothing changed. What came for nobody is dropped when its lease ends.
        """
        left, news = Deadline(timeout, self._clock).remaining, SimpleQueue[None]()
        request = digest_of(request_id)
        taken: list[Incoming] = []
        try:
            self._waiting[news] = None
            while True:
                found = self._arrivals.of(request)
                if found is not None and found.state in ("failed", "granted"):
                    if self._arrivals.take(found, taken):
                        served = self._served(found, request_id)
                        self._waiting.pop(news, None)
                        return served  # no `finally`: struck in one, it would be lost
                    continue
                if found is not None and found.state == "whole" and not found.asked:
                    self._say(Say.READY, found.transfer, left())
                    found.asked = True
                if self._end is not None:
                    raise self._end
                self._wait(news, left(), request_id, timeout)
        except BlocksFailed:
            self._waiting.pop(news, None)
            raise
        except BaseException:
            self._arrivals.put_back(taken)
            self._waiting.pop(news, None)
            raise

    def close(self, timeout: float | None = None) -> None:
        """Close the pipe, too. Whoever waits is told."""
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
                Say.BLOCK, transfer, request, index, len(blocks), left, looks_of(block)
            )
            self._pipe.send_labelled(block, label.pack(), left)

    def _hear(self, offer: _Offer, until: float) -> Say | None:
        """What the receiver says, or None if it says nothing in time, or the pipe has ended."""
        if self._end is not None:
            return None
        while True:
            left = self._left(until)
            try:
                return offer.heard.get(timeout=min(left, _A_LOOK))
            except Empty:
                if left <= _A_LOOK:
                    return None
                self._look()

    def _say(self, say: Say, transfer: bytes, timeout: float | None) -> None:
        self._pipe.send_labelled(None, BlockLabel(say, transfer).pack(), timeout)

    def _give_up(self, transfer: bytes) -> None:
        """Tell the other side, if there is a way: else it learns by the lease."""
        with contextlib.suppress(RefengineError):
            self._say(Say.FAILED, transfer, 0.0)

    def _left(self, until: float) -> float:
        return max(0.0, until - self._clock())

    def _wait(
        self, news: SimpleQueue[None], seconds: float | None, request_id: str, timeout: float | None
    ) -> None:
        if seconds is not None and seconds <= 0:
            raise DeadlinePassed(f"the blocks of {request_id!r}", timeout or 0)
        try:
            news.get(timeout=_A_LOOK if seconds is None else min(seconds, _A_LOOK))
        except Empty:
            self._look()

    def _look(self) -> None:
        """The thread that was struck where it could not even say so is missed here (R9)."""
        if not self._thread.is_alive():
            self.finish(None)

    # -- the thread that receives -------------------------------------------------------------

    def heard(self, block: Any, raw: bytes) -> None:
        """One message has come."""
        label = BlockLabel.unpack(raw)
        if label is None:
            return
        if label.say is Say.BLOCK:
            self._arrivals.block(label, block, self._clock())
        elif label.say is Say.GRANT:
            self._arrivals.granted(label.transfer)
        else:
            offer = self._offers.get(label.transfer)
            if offer is not None:
                offer.heard.put(label.say)
            elif label.say is Say.FAILED:
                self._arrivals.failed(label.transfer)
        self._ring()

    def _ring(self) -> None:
        for news in list(self._waiting):
            news.put(None)

    def finish(self, end: BaseException | None) -> None:
        """Nothing comes any more: all who wait are told. May be said again."""
        if self._end is None:
            self._end = end or PipeClosed("this rank")
        self._ring()
        for offer in list(self._offers.values()):
            offer.heard.put(None)


def _run(whose: "ref[BlockPipe]", pipe: Carrier, arrivals: BlockArrivals, clock: Clock) -> None:
    """Receive until the pipe ends. Who has been dropped is not kept by this (L1)."""
    end: BaseException | None = None
    try:
        while True:
            _pass_on(whose, *_next(pipe, arrivals, clock))
    except BaseException as error:  # whatever it is: those who wait are told
        end = error
    finally:
        blocks = whose()
        if blocks is not None:
            blocks.finish(end)


def _next(pipe: Carrier, arrivals: BlockArrivals, clock: Clock) -> tuple[Any, bytes]:
    """The next message; what has had its time is ended meanwhile."""
    while True:
        try:
            return pipe.recv_labelled(arrivals.expire(clock()))
        except (DeadlinePassed, TransferFailed):
            continue  # what is missing is noticed by what comes after it, or by the lease


def _pass_on(whose: "ref[BlockPipe]", block: Any, raw: bytes) -> None:
    blocks = whose()
    if blocks is None:
        raise PipeClosed("this rank")
    blocks.heard(block, raw)


def _leave(pipe: Carrier) -> None:
    """Nobody is there to hear what was lost."""
    with contextlib.suppress(Exception):
        pipe.close(_EXIT_SECONDS)
