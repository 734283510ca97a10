"""State of incoming transfers of blocks: whole and in order, or failed; no I/O (SPEC K8).

Belongs to the thread that receives, but for `take` and `put_back`, each of which is one step.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from ..base.cleanup import append_atomically
from .protocol import BlockLabel

_PAST_MOST = 4096
"""Number of ended transfers remembered, so that late blocks are recognized."""
_FAILED_MOST = 1024


@dataclass(eq=False)
class Incoming:
    """One incoming transfer."""

    transfer: bytes
    request: bytes
    count: int
    until: float
    """Latest end of its lease, by this side's clock."""
    blocks: list[Any] = field(default_factory=lambda: list[Any]())
    nbytes: int = 0
    state: Literal["coming", "whole", "granted", "failed"] = "coming"
    reason: str = ""
    asked: bool = False
    """True once the sender was told that a caller wants it."""


class BlockReceiver:
    """All incoming transfers. At most `most` bytes are kept of blocks not asked for yet."""

    def __init__(self, most: int, shape_checksum: Callable[[Any], int]) -> None:
        self._most, self._shape_checksum = most, shape_checksum
        self._incoming: dict[bytes, Incoming] = {}
        """By transfer. Of a request, all that were granted and not taken yet, and the newest."""
        self._past: OrderedDict[bytes, None] = OrderedDict()

    def of(self, request: bytes) -> Incoming | None:
        """Return the transfer of a request that is due, if there is one.

        One that was granted goes first: its sender believes that it arrived.
        """
        known = self._of(request)
        return next(
            (each for each in known if each.state == "granted"), known[-1] if known else None
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks kept."""
        return sum(each.nbytes for each in list(self._incoming.values()))

    def block(self, label: BlockLabel, block: Any, now: float) -> None:
        """Add a block to its transfer."""
        if label.transfer in self._past:
            return  # late: its transfer has ended
        found = self._incoming.get(label.transfer)
        if found is None:
            for each in self._of(label.request):
                if each.state != "granted":
                    self._end(each)  # stale: the sender has begun anew
            found = Incoming(label.transfer, label.request, label.count, now + label.lease)
            self._incoming[label.transfer] = found
        wrong = self._objection(found, label, block, now)
        if wrong:
            self._fail(found, wrong)
        elif found.state == "coming":
            if label.count:
                found.blocks.append(block)
                found.nbytes += 0 if block is None else block.nbytes
            if len(found.blocks) == found.count:
                found.state = "whole"
            if self.nbytes > self._most:
                self._fail(found, f"there is no room for more than {self._most} bytes")

    def granted(self, transfer: bytes) -> None:
        """Mark a transfer as granted by its sender: it may be served."""
        found = self._incoming.get(transfer)
        if found is not None and found.state == "whole":
            found.state = "granted"

    def failed(self, transfer: bytes) -> None:
        """Fail a transfer that its sender has given up."""
        found = self._incoming.get(transfer)
        if found is not None and found.state != "granted":
            self._fail(found, "its sender gave it up")
        self._remember(transfer)

    def expire(self, now: float) -> float | None:
        """End transfers whose lease is over; return the seconds until the next one ends."""
        for each in list(self._incoming.values()):
            if now >= each.until:
                self._end(each)
        waiting = [each.until - now for each in list(self._incoming.values())]
        return min(waiting) if waiting else None

    def take(self, found: Incoming, taken: list[Incoming]) -> bool:
        """Move a transfer to `taken`; False if another caller has it, or its lease has ended."""
        try:
            append_atomically(taken, self._incoming.pop, found.transfer)
        except KeyError:
            return False
        return True

    def put_back(self, taken: list[Incoming]) -> None:
        """Return transfers that were not taken, after all."""
        while taken:
            self._incoming[taken[-1].transfer] = taken[-1]
            taken.pop()

    def _of(self, request: bytes) -> list[Incoming]:
        return [each for each in list(self._incoming.values()) if each.request == request]

    def _objection(self, found: Incoming, label: BlockLabel, block: Any, now: float) -> str:
        if found.state in ("failed", "granted"):
            return ""
        if now >= found.until:
            return f"block {label.index} came after the lease"
        if label.request != found.request:
            return f"block {label.index} is of another request"
        if label.count != found.count:
            return f"block {label.index} says that there are {label.count}, not {found.count}"
        if label.checksum != self._shape_checksum(block):
            return f"block {label.index} is not of the type and shape that it was sent with"
        due = len(found.blocks)
        if label.index < due:
            return f"block {label.index} came twice"
        if label.index > due:
            return f"block {due} is missing, {label.index} came"
        return ""

    def _fail(self, found: Incoming, reason: str) -> None:
        found.state, found.reason = "failed", reason
        found.blocks, found.nbytes = [], 0
        self._remember(found.transfer)
        failed = [each for each in list(self._incoming.values()) if each.state == "failed"]
        if len(failed) > _FAILED_MOST:
            self._end(failed[0])

    def _end(self, found: Incoming) -> None:
        self._remember(found.transfer)
        self._incoming.pop(found.transfer, None)

    def _remember(self, transfer: bytes) -> None:
        self._past[transfer] = None
        while len(self._past) > _PAST_MOST:
            self._past.popitem(last=False)
