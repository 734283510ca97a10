"""Steering: programs that ran what few others run are mutated further, so deep states are reached.

The play is a toy: a lock of eight wheels, of which each act turns the next one right or not. Each
wheel is a line.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from killpoint.search.generated import generated
from killpoint.search.reach import CaseReach, Reach
from killpoint.verdict import CaseOutcome

_RIGHT = "cfagbehd"
_DEEP = 4
_ACTS = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12)


class _Lock:
    """A case run whose plays turn the lock's wheels."""

    full = False
    keeps_latest = False
    records = False

    def __init__(self, seed: int, examples: Path, reach: Reach) -> None:
        self.seed, self.examples, self.reach = seed, examples, reach
        self.outcome = CaseOutcome("H1/lock", "H1", "inconclusive")
        self.depths: list[int] = []

    def play(self, acts: list[str]) -> None:
        depth = 0
        reached = {0}
        for letter in acts:
            if letter == _RIGHT[depth % len(_RIGHT)]:
                depth += 1
                reached.add(depth)
            elif letter == _RIGHT[0]:
                depth = max(depth - 1, 0)
        self.depths.append(max(reached))
        assert self.records
        self.reach.take({"lock.py": sorted(reached)}, 0)


def _depths(folder: Path, seed: int, *, steers: bool) -> list[int]:
    """How far each play came, in three items of a campaign."""
    chance, before = random.Random(seed), CaseReach()
    depths: list[int] = []
    for _ in range(3):
        reach = Reach(before, steers=steers)
        lock: Any = _Lock(chance.randrange(1 << 30), folder, reach)
        generated(lock, _ACTS, 100)
        depths += lock.depths
        before.add(reach.added)
    return depths


def test_a_deep_state_is_reached_far_more_often_than_without(tmp_path: Path) -> None:
    deep = {True: 0, False: 0}
    for seed in (0, 1):
        for steers in deep:
            depths = _depths(tmp_path / f"{seed}-{steers}", seed, steers=steers)
            assert len(depths) == 300
            deep[steers] += sum(depth >= _DEEP for depth in depths)
    assert deep[True] > 5 * max(deep[False], 1), deep


def test_outside_a_campaign_nothing_is_recorded(tmp_path: Path) -> None:
    lock: Any = _Lock(1, tmp_path, Reach(CaseReach(), steers=True))
    lock.reach = None
    recorded: list[bool] = []
    lock.play = lambda _acts: recorded.append(lock.records)
    generated(lock, _ACTS, 5)
    assert recorded == [False] * 5


def test_the_next_item_begins_with_what_scored_well_before(tmp_path: Path) -> None:
    deepest = max(_depths(tmp_path, 1, steers=True))
    lock: Any = _Lock(5, tmp_path, Reach(CaseReach(), steers=True))
    generated(lock, _ACTS, 100)
    assert deepest in lock.depths[:10]
