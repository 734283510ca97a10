"""The judge of growth in a group (G2): what windows gain, against idle ones."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.checkers.finding import Inconclusive
from killpoint.checkers.group_growth import steady_gain

KIB = 1024


def weighed(
    gain: int, *, windows: int = 6, idle: int = 0, entries: int | None = None, jump_at: int = -1
) -> GroupTape:
    """Busy windows of ten objects of 100 KiB, in each of which rank 0 gains so much."""
    tape, weight, seq = GroupTape(), 50_000 * KIB, 0
    stored = 0

    def weigh() -> None:
        for role in ("rank-0", "rank-1", "rank-2"):
            rss = weight if role == "rank-0" else 40_000 * KIB
            tape.tell("director", "weight", target=role, rss=rss, pss=rss)

    weigh()
    weight += idle
    weigh()
    for window in range(windows):
        for _ in range(10):
            about = {"form": "bytes", "size": 100 * KIB, "digest": f"d{seq}"}
            tape.tell("rank-1", "send-to", seq=seq, to="rank-2", **about)
            tape.tell("rank-1", "sent-to", seq=seq, outcome="ok", s=0.001)
            tape.takes(2, 1, seq)
            seq += 1
        for rank in range(3):
            tape.comes(rank, n=window)
        for rank in range(3):
            tape.goes(rank, n=window)
        if entries is not None:
            stored += entries
            tape.tell("rank-0", "entries", count=stored)
        weight += gain + (5000 * KIB if window == jump_at else 0)
        weigh()
    return tape


def test_flat_memory_holds() -> None:
    finding = group_judged("G2", weighed(0, entries=0))
    assert finding.violations == []
    assert finding.counts == {"windows": 18}


def test_a_host_that_keeps_what_passed_grows() -> None:
    found = group_convicted("G2", weighed(1000 * KIB))
    assert found.kind == "growth"
    assert "rank-0 gains 1000 KiB" in found.cause


def test_one_step_is_no_growth() -> None:
    assert group_judged("G2", weighed(0, jump_at=3)).violations == []


def test_entries_that_follow_the_calls_are_growth_even_if_they_weigh_nothing() -> None:
    found = group_convicted("G2", weighed(0, entries=10))
    assert found.kind == "growth"
    assert "10 entries" in found.cause


def test_too_few_windows_or_none_idle_are_inconclusive() -> None:
    with pytest.raises(Inconclusive, match="4 busy windows"):
        group_judged("G2", weighed(0, windows=4))


def test_a_rank_that_moves_as_much_while_idle_cannot_be_judged() -> None:
    with pytest.raises(Inconclusive, match="too uneven"):
        group_judged("G2", weighed(0, idle=2000 * KIB))


def test_a_steady_gain_leaves_out_the_largest_step() -> None:
    assert steady_gain([0, 10, 20, 30]) == 10
    assert steady_gain([0, 0, 0, 999, 999, 999]) == 0
    assert steady_gain([0, 0, 20, 20, 40, 40, 60]) == 8
