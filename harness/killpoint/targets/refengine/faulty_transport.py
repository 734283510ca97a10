"""A wire that loses, swaps, repeats, alters or delays the blocks of one transfer (K8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from killpoint.targets.protocol import UnsupportedByTarget
from refengine.pipe.blocks import Carrier
from refengine.pipe.protocol import LABEL_BYTES, BlockLabel, BlockMessage

Sent = tuple[Any, bytes]
"""A block and its label."""


class ForgedBlocks:
    """Stand-in for a pipe that sends the blocks of the next transfer as it was told to."""

    def __init__(self, pipe: Carrier, how: str) -> None:
        """Raise UnsupportedByTarget for a way that it does not know."""
        ways: dict[str, Callable[[BlockLabel, Sent], list[Sent]]] = {
            "swapped": self._swapped,
            "repeated": self._repeated,
            "lost": self._lost,
            "mismatched": self._mismatched,
            "late": self._held_back,
            "stale": self._held_back,
        }
        if how not in ways:
            raise UnsupportedByTarget(f"no wire can be made to send blocks {how!r}")
        self.recv_labelled, self.close = pipe.recv_labelled, pipe.close
        self._pipe, self._how, self._way = pipe, how, ways[how]
        self._transfer = b""
        self._held: list[Sent] = []

    def send_labelled(self, tensor: Any, label: bytes, timeout: float | None = None) -> None:
        """Send what leaves instead of the block."""
        told = BlockLabel.unpack(label.ljust(LABEL_BYTES, b"\0"))
        leaving = [(tensor, label)]
        if told is not None and told.message is BlockMessage.BLOCK:
            self._transfer = self._transfer or told.transfer
            if told.transfer == self._transfer:
                leaving = self._way(told, (tensor, label))
            elif self._how == "stale" and told.index:
                leaving = [*self._let_go(), *leaving]
        elif told is not None and told.message is BlockMessage.FAILED and self._how == "late":
            leaving += self._let_go()
        for each, named in leaving:
            self._pipe.send_labelled(each, named, timeout)

    def _swapped(self, told: BlockLabel, sent: Sent) -> list[Sent]:
        if told.index == 0:
            return self._held_back(told, sent, hold=True)
        return [sent, *self._let_go()]

    def _repeated(self, told: BlockLabel, sent: Sent) -> list[Sent]:
        return [sent, *([] if told.index else [sent])]

    def _lost(self, told: BlockLabel, sent: Sent) -> list[Sent]:
        return [] if told.index == 1 else [sent]

    def _mismatched(self, told: BlockLabel, sent: Sent) -> list[Sent]:
        tensor, label = sent
        return [sent if told.index else (tensor.reshape(-1), label)]

    def _held_back(self, told: BlockLabel, sent: Sent, *, hold: bool = False) -> list[Sent]:
        """Hold the last block, as a copy, since the block is its owner's again soon."""
        if not hold and told.index < told.count - 1:
            return [sent]
        self._held.append((sent[0].clone(), sent[1]))
        return []

    def _let_go(self) -> list[Sent]:
        held, self._held = self._held, []
        return held
