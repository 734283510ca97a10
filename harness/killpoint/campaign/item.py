"""A work item: one case at one strength with one seed, or one finding that is to be shrunk."""

from __future__ import annotations

import random

import msgspec

from killpoint.scenario import Depth

_DEEPER = 3
"""Rounds in which a case is played with another seed, at full strength, and by opcode."""


class Item(msgspec.Struct, frozen=True):
    """Unit of a campaign's work, whose result is reported as a whole."""

    case: str
    round: int = 0
    seed: int = 0
    full: bool = False
    depth: Depth = "line"
    shrinks: str = ""
    """The signature of the finding that is confirmed and shrunk; empty: the case is judged."""

    @property
    def key(self) -> str:
        """Key of the item in the journal: the same in every session of a campaign."""
        return f"shrink {self.shrinks}" if self.shrinks else f"{self.case}@{self.round}"

    @property
    def invariant(self) -> str:
        """The invariant that its case tests."""
        return self.case.split("/")[0]

    @property
    def strength(self) -> tuple[bool, Depth]:
        """Extent and depth to which the case is played; the time of one play depends on them."""
        return self.full, self.depth


def of_round(case: str, number: int, seed: int, *, swept: bool) -> Item:
    """Return the item that a case has in a round.

    Round 0 is what ``check`` plays. From then on each has a seed of its own, by turns: at default
    strength, at full strength, and, where the case has sweeps, by opcode; from the second time on
    at full strength as well.

    Args:
        seed: the campaign's.
        swept: whether the case has sweeps whose depth can be chosen.
    """
    if number == 0:
        return Item(case, 0, seed)
    own = random.Random(f"{seed}/{case}/{number}").randrange(1, 1 << 31)
    cycle, turn = divmod(number - 1, _DEEPER)
    if turn == 1:
        return Item(case, number, own, full=True)
    if turn == 2 and swept:
        return Item(case, number, own, full=cycle > 0, depth="opcode")
    return Item(case, number, own)
