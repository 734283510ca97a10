"""The judge of leaves and deaths in a group (G4)."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.checkers.finding import Inconclusive


def host_dies(tape: GroupTape | None = None) -> GroupTape:
    made = tape or GroupTape()
    made.kills("rank-0")
    return made


def test_an_error_that_names_the_host_within_two_seconds_is_right() -> None:
    tape = host_dies().misses(1, 2, "peer-died", after=0.5, error="rank 0 died")
    finding = group_judged("G4", tape)
    assert finding.violations == []
    assert finding.counts == {"deaths": 1, "told": 1}


def test_nobody_who_called_after_the_death_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        group_judged("G4", host_dies(GroupTape().posts(1, 2, 0).takes(2, 1, 0)))


def test_to_be_told_late_or_by_ones_own_timeout_is_late() -> None:
    for outcome in ("peer-died", "timeout"):
        tape = host_dies().misses(1, 2, outcome, after=4.0, timeout=4.0, error="rank 0 died")
        assert group_convicted("G4", tape).kind == "late"


def test_an_error_that_does_not_name_the_host_is_no_error() -> None:
    tape = host_dies().misses(1, 2, "error", error="connection closed (utils.py:0)")
    found = group_convicted("G4", tape)
    assert (found.kind, found.level) == ("no-error", "SHOULD")
    assert "does not name it: connection closed" in found.cause


def test_the_wording_of_one_rank_hides_no_broken_promise_of_another() -> None:
    tape = host_dies().misses(1, 2, "error", error="connection closed")
    tape.misses(2, 1, "peer-died", after=4.0, error="rank 0 died")
    assert group_convicted("G4", tape).kind == "late"


def test_a_rank_that_waits_for_ever_for_a_dead_host_hangs() -> None:
    tape = host_dies()
    tape.tell("rank-1", "receive-from", source="rank-2")
    tape.hangs("rank-1", "receive-from")
    assert group_convicted("G4", tape).kind == "hang"


def test_what_was_sent_before_a_clean_leave_must_arrive() -> None:
    tape = GroupTape().airs(0, 0)
    tape.ordered("rank-0", "leave")
    assert group_judged("G4", tape.hears(1, 0, 0)).counts == {"leaves": 1}
    lost = GroupTape().posts(0, 1, 0)
    lost.ordered("rank-0", "leave")
    assert group_convicted("G4", lost.misses(1, 0, "error", error="closed")).kind == "lost"


def test_a_dead_members_objects_may_fail_to_come_but_not_later_than_asked() -> None:
    tape = GroupTape().posts(0, 1, 0)
    tape.kills("rank-2")
    tape.misses(1, 2, "timeout", after=1.0, timeout=1.0).takes(1, 0, 0)
    assert group_judged("G4", tape).violations == []
    slow = GroupTape().posts(0, 1, 0)
    slow.kills("rank-2")
    slow.misses(1, 2, "timeout", after=3.0, timeout=1.0).takes(1, 0, 0)
    assert group_convicted("G4", slow).kind == "late"


def test_a_dead_member_harms_the_others_only_by_its_name() -> None:
    for error, kinds in (("rank 2 died", []), ("closed", ["lost"])):
        tape = GroupTape().posts(0, 1, 0).takes(1, 0, 0).posts(0, 1, 1)
        tape.kills("rank-2")
        tape.misses(1, 0, "error", error=error)
        assert [each.kind for each in group_judged("G4", tape).violations] == kinds
