"""Rules for requests under way at once (H4): each convicts, and acquits what is proper."""

from __future__ import annotations

import pytest
from pipe_calls import Calls


def test_requests_of_both_ranks_are_served_while_others_leases_end() -> None:
    calls = Calls()
    for rank, taker in ((0, 1), (1, 0)):
        blocks = calls.sends_blocks(rank, "a-0", (0.0, 1.0))
        calls.sends_blocks(rank, "a-1", (0.0, 0.3), "failed", lease=0.3)
        calls.asks(taker, "a-0", (0.9, 1.0), blocks)
    found = calls.found()
    assert found.violations == []
    assert found.counts == {
        "transfers": 2,
        "tensors": 0,
        "operations": 6,
        "overlapping pairs": 6 + 4 + 1,
    }


def test_an_id_works_again_after_every_end() -> None:
    calls = Calls()
    blocks = calls.sends_blocks(0, "a", (0.0, 0.1))
    calls.asks(1, "a", (0.05, 0.1), blocks)
    calls.sends_blocks(0, "a", (0.5, 0.8), "failed", lease=0.3)
    calls.asks(1, "a", (0.81, 0.81), "failed")
    again = calls.sends_blocks(0, "a", (1.0, 1.1))
    calls.asks(1, "a", (1.05, 1.1), again)
    assert calls.holds()


def test_blocks_of_another_request_are_served_to_nobody() -> None:
    calls = Calls()
    calls.sends_blocks(0, "a-0", (0.0, 3.0), "failed")
    others = calls.sends_blocks(0, "a-1", (0.0, 0.2))
    calls.asks(1, "a-0", (0.1, 0.2), others)
    found = calls.violation()
    assert found.kind == "wrong-data"
    assert "blocks of 'a-1' for 'a-0'" in found.cause


class TestTransfers:
    """A transfer fails of its lease, and only while nobody asks for it."""

    def test_one_that_fails_before_its_lease_is_over(self) -> None:
        calls = Calls()
        calls.sends_blocks(0, "a", (0.0, 0.5), "failed")
        found = calls.violation()
        assert found.kind == "lost"
        assert "failed after 0.50 s of a lease of 3 s" in found.cause

    @pytest.mark.parametrize(("asked", "convicted"), [(2.0, True), (2.9, False), (4.0, False)])
    def test_one_whose_lease_ends_though_somebody_asks(self, asked: float, convicted: bool) -> None:
        calls = Calls()
        calls.sends_blocks(0, "a", (0.0, 3.0), "failed")
        calls.asks(1, "a", (asked, None))
        assert calls.holds() is not convicted
        if convicted:
            assert "was asked for 1.00 s before its lease ended" in calls.violation().cause

    def test_one_that_is_served_and_told_that_it_failed(self) -> None:
        calls = Calls()
        blocks = calls.sends_blocks(0, "a", (0.0, 0.3), "failed", lease=0.3)
        calls.asks(1, "a", (0.1, 0.25), blocks)
        assert "and its sender told that it was not" in calls.violation().cause

    def test_one_that_is_acknowledged_and_was_not_asked_for(self) -> None:
        calls = Calls()
        calls.sends_blocks(0, "a", (0.0, 0.1))
        assert "nobody had asked for it" in calls.violation().cause
        calls.asks(0, "a", (0.05, 0.06))  # this one is no taker of its own blocks
        assert not calls.holds()
        assert calls.asks(1, "a", (0.05, 0.06)).holds()

    def test_one_that_is_acknowledged_and_not_there_when_asked_for_again(self) -> None:
        calls = Calls()
        blocks = calls.sends_blocks(0, "a", (0.0, 0.1))
        calls.asks(1, "a", (0.05, 0.06))
        calls.asks(1, "a", (0.5, 1.5))
        assert "who asked again" in calls.violation().cause
        served = Calls()
        blocks = served.sends_blocks(0, "a", (0.0, 0.1))
        served.asks(1, "a", (0.05, 0.06)).asks(1, "a", (0.5, 0.5), blocks)
        assert served.holds()

    def test_one_that_lasts_longer_than_its_lease(self) -> None:
        calls = Calls()
        calls.sends_blocks(0, "a", (0.0, 3.2), "failed")
        assert calls.holds()
        calls.sends_blocks(1, "a", (0.0, 3.5), "failed")
        assert calls.violation().kind == "late"


class TestReceives:
    """A receive comes back without blocks only while there are none for it."""

    def test_two_looks_without_time_find_what_has_come(self) -> None:
        calls = Calls()
        calls.sends_blocks(0, "a", (0.0, None), lease=1.5)
        calls.asks(1, "a", (0.3, 0.3))
        assert calls.holds()  # it may have been the first to ask
        calls.asks(1, "a", (0.5, 0.5))
        assert calls.holds()
        calls.asks(1, "a", (0.7, 0.7))
        found = calls.violation()
        assert found.kind == "starved"
        assert "with timeout 0 s and was given nothing" in found.cause

    def test_looks_before_the_blocks_have_come_and_after_they_are_taken_find_nothing(self) -> None:
        calls = Calls()
        calls.asks(1, "a", (0.0, 0.0))
        blocks = calls.sends_blocks(0, "a", (0.1, 0.4))
        calls.asks(1, "a", (0.12, 0.12)).asks(1, "a", (0.35, 0.4), blocks)
        calls.asks(1, "a", (0.8, 0.8)).asks(1, "a", (1.8, 1.8))
        assert calls.holds()

    def test_one_that_waits_for_blocks_that_lie_there(self) -> None:
        calls = Calls()
        calls.sends_blocks(0, "a", (0.0, None))
        calls.asks(1, "a", (0.5, 1.0))
        assert calls.violation().kind == "starved"

    def test_one_whose_time_is_over_when_the_blocks_come(self) -> None:
        calls = Calls()
        calls.sends_blocks(0, "a", (1.0, 4.0), "failed")
        calls.asks(1, "a", (0.0, 1.45), timeout=1.25)  # a little late
        assert calls.holds()
        calls.asks(1, "a", (1.5, 1.5))  # this one looks
        assert "was asked for 2.50 s before its lease ended" in calls.violation().cause

    def test_one_that_fails_without_a_transfer_that_failed(self) -> None:
        calls = Calls()
        calls.sends_blocks(0, "b", (0.0, 0.3), "failed", lease=0.3)
        calls.asks(1, "a", (0.1, 0.2), "failed", timeout=1.0)
        assert "and no transfer of it had failed" in calls.violation().cause

    def test_one_that_is_told_a_second_time(self) -> None:
        calls = Calls()
        calls.sends_blocks(0, "a", (0.0, 0.3), "failed", lease=0.3)
        calls.asks(1, "a", (0.31, 0.32), "failed", timeout=1.0)
        assert calls.holds()
        calls.asks(1, "a", (0.4, 0.41), "failed", timeout=1.0)
        assert calls.violation().kind == "lost"

    @pytest.mark.parametrize(
        ("ended", "timeout", "words"), [(0.1, 0.5, "after 0.10 s"), (1.2, 0.5, "after 1.20 s")]
    )
    def test_one_that_does_not_end_in_its_own_time(
        self, ended: float, timeout: float, words: str
    ) -> None:
        found = Calls().asks(1, "a", (0.0, ended), timeout=timeout).violation()
        assert found.kind == "late"
        assert words in found.cause
        assert Calls().asks(1, "a", (0.0, timeout), timeout=timeout).holds()


class TestHarmedBlocks:
    """A transfer whose blocks were harmed fails, and who asks for it is told."""

    def test_both_are_told(self) -> None:
        calls = Calls().harms(0, 0.0)
        calls.sends_blocks(0, "a", (0.1, 0.2), "failed")
        calls.asks(1, "a", (0.0, 0.15), "failed", timeout=1.0).asks(1, "a", (0.6, 0.6))
        assert calls.holds()

    def test_nobody_asks_and_the_lease_ends(self) -> None:
        calls = Calls().harms(0, 0.0)
        calls.sends_blocks(0, "a", (0.1, 0.4), "failed", lease=0.3)
        assert calls.holds()

    def test_who_asks_is_not_told(self) -> None:
        calls = Calls().harms(0, 0.0)
        calls.sends_blocks(0, "a", (0.1, 3.1), "failed")
        calls.asks(1, "a", (0.0, 1.5))
        found = calls.violation()
        assert found.kind == "starved"
        assert "swapped as they were" in found.cause

    def test_they_are_acknowledged(self) -> None:
        calls = Calls().harms(0, 0.0)
        calls.sends_blocks(0, "a", (0.1, 0.2))
        calls.asks(1, "a", (0.0, 0.15), "failed", timeout=1.0)
        assert not calls.holds()
        assert "was acknowledged to pipe-0, and came swapped" in calls.violation().cause

    def test_the_next_transfer_of_the_id_is_judged_as_ever(self) -> None:
        calls = Calls().harms(0, 0.0)
        calls.sends_blocks(0, "a", (0.1, 0.2), "failed")
        calls.asks(1, "a", (0.0, 0.15), "failed", timeout=1.0)
        calls.sends_blocks(0, "a", (0.5, 0.6), "failed")
        assert "nothing had been done to its blocks" in calls.violation().cause


def test_two_transfers_of_one_id_at_once_are_not_judged() -> None:
    calls = Calls()
    calls.sends_blocks(0, "a", (0.0, 0.5), "failed")
    calls.sends_blocks(0, "a", (0.4, 0.9), "failed")
    assert calls.holds()
