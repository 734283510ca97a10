"""The judge of ranks whose connections are harmed (G4)."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import Fault

CUT = Fault("cut", "rank-1")
SILENCE = 2.0


class CutTape(GroupTape):
    """A group of a known silence, and what is done to its connections."""

    def __init__(self) -> None:
        super().__init__()
        self.tell("rank-0", "silence", seconds=SILENCE)

    def harms(self, fault: str = "cut", rank: int = 1, toward: str = "both") -> CutTape:
        """The relay does it."""
        self.tell("director", "fault", fault=fault, target=f"rank-{rank}", toward=toward)
        return self

    def begins(self, rank: int, source: int) -> CutTape:
        """A receive begins and does not end yet."""
        self.tell(f"rank-{rank}", "receive-from", source=f"rank-{source}")
        return self

    def told(self, rank: int, error: str, outcome: str = "peer-died") -> CutTape:
        """It ends with an error."""
        who = [e for e in self.events if e.role == f"rank-{rank}"][-1].text("source")
        self.tell(f"rank-{rank}", "got-from", source=who, outcome=outcome, error=error, s=1.0)
        return self


def cut_off(fault: str = "cut") -> CutTape:
    """Everybody waits, and rank 1 is cut off."""
    tape = CutTape().begins(0, 1).begins(1, 0).begins(2, 1).harms(fault)
    tape.later(2500)
    return tape


def kinds(tape: GroupTape) -> list[str]:
    return [each.kind for each in group_judged("G4", tape, CUT).violations]


@pytest.mark.parametrize("fault", ["cut", "half-open"])
def test_all_are_told_of_who_is_cut_off_and_it_of_its_host(fault: str) -> None:
    tape = cut_off(fault).told(0, "rank 1 silent").told(1, "rank 0 silent").told(2, "rank 1 silent")
    finding = group_judged("G4", tape, CUT)
    assert finding.violations == []
    assert finding.counts == {"told": 3}


def test_who_is_cut_off_may_be_told_that_it_is() -> None:
    tape = cut_off().told(0, "rank 1 silent").told(1, "rank 1 is cut off").told(2, "rank 1 silent")
    assert kinds(tape) == []


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_each_of_them_must_be_told_and_of_whom(rank: int) -> None:
    tape = cut_off()
    for each in (0, 1, 2):
        right = "rank 0 silent" if each == 1 else "rank 1 silent"
        tape.told(each, "connection lost" if each == rank else right)
    found = group_convicted("G4", tape, CUT)
    assert found.kind == "no-error"
    assert f"rank-{rank}'s receive" in found.cause
    assert "does not name it: connection lost" in found.cause


def test_another_rank_named_is_not_the_one_that_is_cut_off() -> None:
    tape = cut_off().told(0, "rank 2 silent").told(1, "rank 0 silent").told(2, "rank 1 silent")
    assert kinds(tape) == ["no-error"]


def test_to_be_told_later_than_two_seconds_after_the_silence_is_late() -> None:
    tape = cut_off().told(1, "rank 0 silent").told(2, "rank 1 silent")
    tape.later(2000)
    found = group_convicted("G4", tape.told(0, "rank 1 silent"), CUT)
    assert found.kind == "late"
    assert "the peer timeout was set to 2 s" in found.cause


def test_a_slow_machine_is_not_late() -> None:
    tape = cut_off().told(1, "rank 0 silent").told(2, "rank 1 silent")
    tape.late(1000).later(2000)
    assert kinds(tape.told(0, "rank 1 silent")) == []


def test_a_call_that_begins_after_the_silence_has_two_seconds() -> None:
    tape = cut_off().told(0, "rank 1 silent").told(1, "rank 0 silent").told(2, "rank 1 silent")
    assert kinds(tape.misses(2, 1, "peer-died", after=0.1, error="rank 1 silent")) == []
    for after, expected in ((1.5, []), (2.5, ["late"])):
        late = CutTape().begins(0, 1).begins(1, 0).harms()
        late.later(2500).told(0, "rank 1 silent").told(1, "rank 0 silent").later(5000)
        late.misses(2, 1, "peer-died", after=after, error="rank 1 silent")
        assert kinds(late) == expected


def test_a_rank_that_waits_for_ever_hangs() -> None:
    tape = cut_off().told(1, "rank 0 silent").told(2, "rank 1 silent")
    tape.later(8000).hangs("rank-0", "receive-from")
    found = group_convicted("G4", tape, CUT)
    assert found.kind == "hang"
    assert "the cut of rank-1's connections was never noticed" in found.cause


def test_ones_own_timeout_is_no_word_of_a_cut() -> None:
    tape = cut_off().told(1, "rank 0 silent").told(2, "rank 1 silent").later(2500)
    tape.told(0, "timed out after 5 s", outcome="timeout")
    found = group_convicted("G4", tape, CUT)
    assert found.kind == "no-error"
    assert "only ran into its own timeout" in found.cause


def test_a_rank_that_never_called_makes_it_inconclusive() -> None:
    tape = CutTape().begins(0, 1).begins(1, 0).harms()
    tape.later(2500).told(0, "rank 1 silent").told(1, "rank 0 silent").takes(2, 0, 9)
    tape.posts(0, 2, 9)
    with pytest.raises(Inconclusive, match="rank-2 made no call"):
        group_judged("G4", tape, CUT)


def test_those_that_are_left_must_not_lose_what_is_between_them() -> None:
    tape = cut_off().told(0, "rank 1 silent").told(1, "rank 0 silent").told(2, "rank 1 silent")
    tape.posts(0, 2, 5).misses(2, 0, "error", error="all is over")
    assert kinds(tape) == ["lost"]


# -- who comes back in time -----------------------------------------------------------------


def come_back(seconds: float = 0.8, fault: str = "cut") -> CutTape:
    """Objects are sent both ways in the fault, and it is healed."""
    tape = CutTape().harms(fault)
    tape.posts(0, 1, 0).posts(1, 2, 1)
    tape.later(seconds * 1000).tell("director", "fault", fault="heal", target="rank-1")
    return tape


@pytest.mark.parametrize("fault", ["cut", "reset"])
def test_all_that_was_sent_meanwhile_arrives(fault: str) -> None:
    tape = come_back(fault=fault).takes(1, 0, 0).takes(2, 1, 1)
    finding = group_judged("G4", tape, CUT)
    assert (finding.violations, finding.counts) == ([], {"messages": 2})


@pytest.mark.parametrize("fault", ["cut", "reset"])
def test_what_does_not_arrive_is_lost(fault: str) -> None:
    tape = come_back(fault=fault).takes(2, 1, 1).misses(1, 0, "peer-died", error="rank 0 silent")
    assert kinds(tape) == ["lost"]
    gap = come_back(fault=fault).posts(0, 1, 2).takes(1, 0, 2).takes(2, 1, 1)
    assert kinds(gap) == ["lost"]


def test_what_arrives_twice_or_in_another_order_is_found() -> None:
    twice = come_back().takes(1, 0, 0).takes(1, 0, 0).takes(2, 1, 1)
    assert kinds(twice) == ["duplicate"]
    turned = come_back().posts(0, 1, 2).takes(1, 0, 2).takes(1, 0, 0)
    assert kinds(turned) == ["reordered"]


def test_a_barrier_afterwards_must_come_off() -> None:
    tape = come_back().takes(1, 0, 0).takes(2, 1, 1)
    for rank in range(3):
        tape.comes(rank)
    for rank in range(3):
        tape.goes(rank, "error" if rank == 1 else "ok", error="rank 0 is gone")
    assert kinds(tape) == ["lost"]


def test_a_cut_too_near_to_the_silence_is_inconclusive() -> None:
    tape = come_back(1.5).takes(1, 0, 0).takes(2, 1, 1)
    with pytest.raises(Inconclusive, match="too near to the silence"):
        group_judged("G4", tape, CUT)


@pytest.mark.parametrize("source", [0, 1])
def test_a_way_that_nothing_went_during_the_cut_is_inconclusive(source: int) -> None:
    tape = CutTape().harms()
    tape.posts(source, 1 - source, 0).takes(1 - source, source, 0)
    tape.later(500).tell("director", "fault", fault="heal", target="rank-1")
    tape.posts(1 - source, source, 1).takes(source, 1 - source, 1)
    with pytest.raises(Inconclusive, match="during its cut"):
        group_judged("G4", tape, CUT)


def test_no_harm_done_is_inconclusive() -> None:
    with pytest.raises(Inconclusive, match="no connection was harmed"):
        group_judged("G4", CutTape().posts(0, 1, 0).takes(1, 0, 0), CUT)


def test_an_error_after_a_reset_says_what_was_done_to_the_connections() -> None:
    tape = CutTape().begins(0, 1).harms("reset").told(0, "Broken pipe", "error")
    (found,) = group_judged("G4", tape, Fault("reset", "rank-1")).violations
    told = "ended with error although rank-1 was there: Broken pipe (connections: reset)"
    assert found.cause.endswith(told)
