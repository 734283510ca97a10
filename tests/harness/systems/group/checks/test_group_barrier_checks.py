"""The judge of barriers (G3): nobody passes alone, and who waits in vain is told for whom."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.checkers.finding import Inconclusive


def waited(error: str, *, outcome: str = "timeout", s: float = 1.0) -> GroupTape:
    """Ranks 0 and 1 come; rank 0's barrier ends so."""
    tape = GroupTape().comes(0).comes(1)
    tape.later(s * 1000)
    return tape.goes(0, outcome, error=error, s=s)


def test_a_barrier_that_names_who_did_not_come_at_its_timeout_is_right() -> None:
    finding = group_judged("G3", waited("rank 2 did not come"))
    assert finding.violations == []
    assert finding.counts == {"barriers": 1}


def test_a_barrier_that_all_came_to_says_nothing_of_g3() -> None:
    tape = GroupTape().comes(0).comes(1).comes(2).goes(0).goes(1).goes(2)
    with pytest.raises(Inconclusive):
        group_judged("G3", tape)


def test_a_barrier_that_passes_without_one_is_no_error() -> None:
    found = group_convicted("G3", waited("", outcome="ok", s=0.1))
    assert found.kind == "no-error"
    assert "rank-2 had not come" in found.cause


def test_an_error_that_names_nobody_or_the_wrong_one_is_no_error() -> None:
    for text in ("it took too long", "rank 1 did not come"):
        found = group_convicted("G3", waited(text))
        assert (found.kind, found.level) == ("no-error", "SHOULD")  # it did err, and in time
        assert "does not name it" in found.cause


def test_the_wording_of_one_rank_hides_no_broken_promise_of_another() -> None:
    tape = waited("it took too long").comes(1).goes(1, "timeout", error="rank 2", s=4.0)
    assert group_convicted("G3", tape).kind == "late"


def test_a_barrier_is_neither_late_nor_early() -> None:
    assert group_convicted("G3", waited("rank 2", s=1.5)).kind == "late"
    assert "too early" in group_convicted("G3", waited("rank 2", s=0.5)).cause


def test_a_late_control_excuses_a_late_barrier() -> None:
    tape = GroupTape().comes(0).comes(1)
    tape.later(1500)
    tape.late(300)
    tape.goes(0, "timeout", error="rank 2", s=1.5)
    assert group_judged("G3", tape).violations == []


def test_of_a_death_it_may_be_told_at_once() -> None:
    tape = GroupTape().comes(0).comes(2)
    tape.kills("rank-2")
    tape.goes(0, "peer-died", error="rank 2 died", s=0.1)
    assert group_judged("G3", tape).violations == []


def test_who_came_and_died_long_before_the_last_may_not_be_counted() -> None:
    for later, kinds in ((2500, ["no-error"]), (500, [])):
        tape = GroupTape().comes(0, timeout=9.0).comes(2)
        tape.kills("rank-2").later(later)
        tape.comes(1).goes(1).goes(0, "peer-died", error="rank 2 died")
        assert [each.kind for each in group_judged("G3", tape).violations] == kinds


def test_a_barrier_that_fails_although_all_came_is_lost() -> None:
    tape = GroupTape().comes(0).comes(1).comes(2).goes(0, "timeout", error="rank 2", s=0.02)
    assert group_convicted("G3", tape).kind == "lost"


def test_a_rank_that_came_as_the_time_ran_out_may_have_been_missed() -> None:
    for before, kinds in ((20, []), (400, ["lost"])):
        tape = GroupTape().comes(0).comes(1).passes(1000 - before).comes(2)
        tape.later(before)
        tape.goes(0, "timeout", error="rank 2 did not come", s=1.0)
        found = group_judged("H2", tape).violations
        assert [each.kind for each in found] == kinds


def test_a_rank_that_had_given_up_waits_for_nobody() -> None:
    """After its timeout it is as if it had not come (X1)."""
    tape = GroupTape().comes(0).passes(1000).goes(0, "timeout", error="ranks 1, 2", s=1.0)
    tape.comes(1).comes(2).passes(1000).goes(1, "timeout", error="rank 0", s=1.0)
    assert group_judged("G3", tape).violations == []
    late = GroupTape().comes(0).passes(1000).goes(0, "timeout", error="ranks 1, 2", s=1.0)
    late.comes(1).comes(2).passes(3000).goes(1, "timeout", error="rank 0", s=3.0)
    assert group_convicted("G3", late).kind == "late"


def test_a_rank_that_gave_up_calls_again_for_the_same_barrier() -> None:
    """The retry gives what the first attempt would have given (X1)."""

    def again(*come: int) -> GroupTape:
        tape = GroupTape().comes(0).comes(1).passes(1000)
        tape.goes(0, "timeout", error="rank 2 did not come", s=1.0)
        for rank in come:
            tape.comes(rank)
        return tape.comes(0, n=1).goes(0, n=1)

    assert group_judged("G3", again(2).goes(1).goes(2)).violations == []
    assert "although rank-2 had not come" in group_convicted("G3", again()).cause


def test_a_call_that_failed_may_count_as_one_all_the_same() -> None:
    """A target that numbers its calls is judged by who met whom, not by how it counts."""
    tape = GroupTape().comes(0).passes(1000).goes(0, "timeout", error="ranks 1, 2", s=1.0)
    for n in (0, 1):
        tape.comes(1, n=n).comes(2, n=n)
        if n:
            tape.comes(0, n=1).goes(0, n=1)
        tape.goes(1, n=n).goes(2, n=n)
    assert group_judged("G3", tape).violations == []


def test_a_barrier_that_never_ends_hangs() -> None:
    tape = GroupTape().comes(0).comes(1)
    tape.hangs("rank-0", "barrier")
    assert group_convicted("G3", tape).kind == "hang"


def test_a_join_without_a_rank_ends_in_time_and_not_well_at_the_host() -> None:
    def joined(outcome: str, s: float) -> GroupTape:
        tape = GroupTape()
        tape.tell("rank-0", "begin", op="join", timeout=1.0).later(s * 1000)
        tape.tell("rank-0", "end", op="join", outcome=outcome, error="rank 2 is missing", s=s)
        return tape

    assert group_judged("G3", joined("timeout", 1.0)).violations == []
    assert group_convicted("G3", joined("timeout", 2.5)).kind == "late"
    assert group_convicted("G3", joined("ok", 0.1)).kind == "no-error"


@pytest.mark.parametrize(
    ("error", "kinds"),
    [("waited 1 s for ranks 0, 1", []), ("waited 1 s for rank 0", ["no-error"])],
)
def test_whoever_fails_to_join_names_the_rank_that_died_in_its_join(
    error: str, kinds: list[str]
) -> None:
    tape = GroupTape()
    for rank in (0, 1, 2):
        tape.tell(f"rank-{rank}", "begin", op="join", timeout=1.0)
    tape.kills("rank-1").later(1000)
    tape.tell("rank-2", "end", op="join", outcome="timeout", error=error, s=1.0)
    assert [each.kind for each in group_judged("G3", tape).violations] == kinds


def test_a_rank_that_died_in_its_join_may_have_come() -> None:
    tape = GroupTape()
    for rank in (0, 1):
        tape.tell(f"rank-{rank}", "begin", op="join", timeout=1.0)
    tape.kills("rank-1")
    tape.tell("rank-0", "end", op="join", outcome="ok", s=0.1)
    tape.tell("rank-2", "end", op="join", outcome="died", error="rank 1 died", s=0.1)
    assert group_judged("G3", tape).violations == []


def test_who_gave_up_before_may_be_named_instead() -> None:
    tape = GroupTape()
    for rank in (0, 1, 2):
        tape.tell(f"rank-{rank}", "begin", op="join", timeout=1.0)
    tape.kills("rank-1").later(1000)
    tape.tell("rank-2", "end", op="join", outcome="timeout", error="ranks 0, 1", s=1.0)
    tape.tell("rank-0", "end", op="join", outcome="closed", error="rank 2 has left", s=1.0)
    assert group_judged("G3", tape).violations == []


def test_a_death_in_a_join_after_which_all_others_are_whole_is_evidence() -> None:
    tape = GroupTape()
    for rank in (0, 1, 2):
        tape.tell(f"rank-{rank}", "begin", op="join", timeout=1.0)
    for rank in (0, 2):
        tape.tell(f"rank-{rank}", "end", op="join", outcome="ok", s=0.1)
    tape.kills("rank-1")
    assert group_judged("G3", tape).violations == []
