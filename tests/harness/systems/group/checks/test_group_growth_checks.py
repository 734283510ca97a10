"""The judge of growth in a group (G2): what windows gain, against idle ones."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.checkers.finding import Inconclusive
from killpoint.systems.group.checks.growth import steady_gain

KIB = 1024


def weighed(
    gain: int,
    *,
    windows: int = 20,
    unsteady: int = 0,
    entries: int | None = None,
    jump_at: int = -1,
) -> GroupTape:
    """Windows of ten objects of 100 KiB, in each of which rank 0 gains so much.

    ``unsteady``: what it weighs more after every other window.
    """
    tape, weight, seq = GroupTape(), 50_000 * KIB, 0
    stored = 0
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
        for role in ("rank-0", "rank-1", "rank-2"):
            now = weight + unsteady * (window % 2) if role == "rank-0" else 40_000 * KIB
            tape.tell("director", "weight", target=role, rss=now, pss=now, private=now)
    return tape


def test_flat_memory_holds() -> None:
    finding = group_judged("G2", weighed(0, entries=0))
    assert finding.violations == []
    assert finding.counts == {"windows": 45}


def test_a_host_that_keeps_what_passed_grows() -> None:
    found = group_convicted("G2", weighed(1000 * KIB))
    assert found.kind == "growth"
    assert "rank-0's private memory grew by 1.00 bytes for each byte" in found.cause


def test_one_step_is_no_growth() -> None:
    assert group_judged("G2", weighed(0, jump_at=5)).violations == []


def test_entries_that_follow_the_calls_are_growth_even_if_they_weigh_nothing() -> None:
    found = group_convicted("G2", weighed(0, entries=10))
    assert found.kind == "growth"
    assert "10 entries" in found.cause


def test_buffers_that_fill_for_some_windows_are_no_growth() -> None:
    """As arenas do on a busy machine: more than half of what passed, for six windows."""
    gains = [300, 80, 860, 60, 880, 90, 40, 30, 10, 0, 0, 20, 10, 0, 0, 0]
    tape = GroupTape()
    weight = 40_000 * KIB
    for seq, gain in enumerate(gains):
        about = {"form": "bytes", "size": 1000 * KIB, "digest": f"d{seq}"}
        tape.tell("rank-1", "send-to", seq=seq, to="rank-2", **about)
        tape.tell("rank-1", "sent-to", seq=seq, outcome="ok", s=0.001)
        tape.takes(2, 1, seq)
        weight += gain * KIB
        for role in ("rank-0", "rank-1", "rank-2"):
            tape.tell("director", "weight", target=role, rss=weight, pss=weight, private=weight)
    assert group_judged("G2", tape).violations == []


def test_too_few_windows_are_inconclusive() -> None:
    with pytest.raises(Inconclusive, match="weighed 9 times of 10"):
        group_judged("G2", weighed(0, windows=11))


def test_what_may_be_kept_or_not_cannot_be_told() -> None:
    with pytest.raises(Inconclusive, match="neither flat nor growth"):
        group_judged("G2", weighed(200 * KIB, unsteady=20_000 * KIB))


def test_a_steady_gain_leaves_out_the_largest_step() -> None:
    assert steady_gain([0, 10, 20, 30]) == 10
    assert steady_gain([0, 0, 0, 999, 999, 999]) == 0
    assert steady_gain([0, 0, 20, 20, 40, 40, 60]) == 8
