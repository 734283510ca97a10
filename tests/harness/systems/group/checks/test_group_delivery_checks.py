"""The judges of order in a group (G1) and of the wall clock (G5)."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import Fault


def test_each_pair_in_its_own_order_is_what_a_group_owes() -> None:
    tape = GroupTape().posts(0, 1, 0).posts(2, 1, 5).posts(0, 1, 1)
    tape.takes(1, 2, 5).takes(1, 0, 0).takes(1, 0, 1)
    tape.airs(0, 7).hears(2, 0, 7).hears(1, 0, 7)
    assert group_judged("G1", tape).violations == []
    assert group_judged("G1", tape).counts == {"messages": 5}


def test_nothing_that_arrived_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        group_judged("G1", GroupTape().posts(0, 1, 0))


def test_two_that_changed_places_are_reordered() -> None:
    tape = GroupTape().posts(0, 1, 0).posts(0, 1, 1).takes(1, 0, 1).takes(1, 0, 0)
    assert group_convicted("G1", tape).kind == "reordered"


def test_one_that_was_skipped_is_lost() -> None:
    tape = GroupTape().posts(0, 1, 0).posts(0, 1, 1).takes(1, 0, 1)
    found = group_convicted("G1", tape)
    assert found.kind == "lost"
    assert "never object 0" in found.cause


def test_one_that_came_again_is_a_duplicate_also_of_a_broadcast() -> None:
    assert group_convicted("G1", GroupTape().posts(0, 1, 0).takes(1, 0, 0).takes(1, 0, 0)).kind == (
        "duplicate"
    )
    assert group_convicted("G1", GroupTape().airs(0, 0).hears(1, 0, 0).hears(1, 0, 0)).kind == (
        "duplicate"
    )


def test_what_another_rank_sent_is_wrong_data_and_says_whose_it_was() -> None:
    tape = GroupTape().posts(0, 1, 0).posts(2, 1, 5).takes(1, 0, 5)
    found = group_convicted("G1", tape)
    assert found.kind == "wrong-data"
    assert "which rank-2 sent to rank-1" in found.cause


def test_other_bytes_than_were_sent_are_wrong_data() -> None:
    assert group_convicted("G1", GroupTape().posts(0, 1, 0).takes(1, 0, 0, "half")).kind == (
        "wrong-data"
    )


def test_a_receive_that_fails_while_something_lies_there_has_lost_it() -> None:
    tape = GroupTape().posts(0, 1, 0)
    tape.later(150)
    assert group_convicted("G1", tape.misses(1, 0, "timeout")).kind == "lost"
    tape = GroupTape().misses(1, 0, "error").posts(0, 1, 0).takes(1, 0, 0)
    assert group_convicted("G1", tape).kind == "lost"


def test_a_receive_that_runs_out_as_something_comes_is_right() -> None:
    tape = GroupTape().posts(0, 1, 0)
    tape.later(50)
    tape.misses(1, 0, "timeout").takes(1, 0, 0)
    assert group_judged("G1", tape).violations == []


def test_a_receive_that_runs_out_before_anything_was_sent_is_right() -> None:
    tape = GroupTape().misses(1, 0, "timeout").posts(0, 1, 0).takes(1, 0, 0)
    assert group_judged("G1", tape).violations == []


def test_a_gather_has_every_ranks_object_in_rank_order() -> None:
    right = [0, 1, 2]
    tape = GroupTape().gathers(0, 0, right).gathers(1, 1, right).gathers(2, 2, right)
    assert group_judged("G1", tape).violations == []
    tape = GroupTape().gathers(0, 0, right).gathers(1, 1, [1, 0, 2]).gathers(2, 2, right)
    assert group_convicted("G1", tape).kind == "reordered"
    tape = GroupTape().gathers(0, 0, right).gathers(1, 1, [0, 1, 1]).gathers(2, 2, right)
    assert group_convicted("G1", tape).kind == "lost"


def test_a_join_that_fails_where_nothing_was_wrong_is_told() -> None:
    tape = GroupTape().posts(0, 1, 0).takes(1, 0, 0)
    tape.tell("rank-2", "end", op="join", outcome="error", error="no address")
    assert "rank-2's join failed: no address" in group_convicted("G1", tape).cause


def test_a_clock_that_was_to_jump_and_did_not_is_inconclusive() -> None:
    tape = GroupTape().posts(0, 1, 0).takes(1, 0, 0)
    jump = Fault("jump-clock", "rank-0", hours=2.0)
    with pytest.raises(Inconclusive, match="1 clocks were to jump, 0 did"):
        group_judged("G5", tape, jump)
    tape.tell("rank-0", "jumped", s=7200.0)
    assert group_judged("G5", tape, jump).counts["jumps"] == 1


def test_what_is_lost_after_a_jump_is_a_violation() -> None:
    tape = GroupTape().posts(0, 1, 0).tell("rank-0", "jumped", s=-7200.0)
    assert isinstance(tape, GroupTape)
    tape.later(150)
    tape.misses(1, 0, "timeout")
    jump = Fault("jump-clock", "rank-0", hours=-2.0)
    assert group_convicted("G5", tape, jump).kind == "lost"


def test_who_has_had_all_is_told_that_its_source_has_left() -> None:
    tape = GroupTape().posts(0, 1, 0).takes(1, 0, 0)
    tape.ordered("rank-0", "leave")
    assert group_judged("G1", tape.misses(1, 0, "closed")).violations == []


def test_a_leave_does_not_excuse_what_was_not_given() -> None:
    tape = GroupTape().posts(0, 1, 0)
    tape.ordered("rank-0", "leave")
    assert (
        group_convicted("G1", tape.misses(1, 0, "closed").airs(2, 4).hears(0, 2, 4)).kind == "lost"
    )


def _left() -> GroupTape:
    """Rank 1 has left."""
    tape = GroupTape()
    tape.posts(0, 2, 0).takes(2, 0, 0)
    tape.ordered("rank-1", "leave")
    return tape


def test_a_rank_that_has_left_is_not_there_for_who_needs_it() -> None:
    def gathers(tape: GroupTape) -> GroupTape:
        tape.tell("rank-0", "gather", seq=5, size=64, digest="d5")
        tape.tell("rank-0", "gathered", outcome="closed", error="rank 1 has left", s=0.001)
        return tape

    def meets(tape: GroupTape) -> GroupTape:
        return tape.comes(0).goes(0, "closed", error="rank 1 has left", s=0.01)

    def posts(tape: GroupTape, to: int = 1) -> GroupTape:
        return tape.posts(0, to, 1, "closed", "rank 1 has left")

    for does in (gathers, meets, posts):
        assert group_judged("G1", does(_left())).violations == []
        assert group_judged("H2", does(_left())).violations == []
        assert group_convicted("G1", does(GroupTape())).kind in ("lost", "late")
    assert group_convicted("G1", posts(_left(), to=2)).kind == "lost"
