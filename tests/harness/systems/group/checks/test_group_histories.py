"""The judge of histories of many ranks of a group at once (H2)."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged

from killpoint.checkers.finding import Inconclusive


def _receives(outcome: str, waits: float) -> GroupTape:
    """Rank 1 receives what rank 0 sent so many ms ago."""
    tape = GroupTape().posts(0, 1, 0)
    tape.later(waits)
    return tape.misses(1, 0, outcome, error="gave up")


def _meets(*, absent: int | None = None, outcome: str = "ok", s: float = 1.0) -> GroupTape:
    """All ranks enter a barrier, but for one, and come back from it."""
    tape = GroupTape()
    ranks = [rank for rank in range(3) if rank != absent]
    for rank in ranks:
        tape.comes(rank)
    tape.later(s * 1000)
    for rank in ranks:
        tape.goes(rank, outcome, error="waited for rank 2", s=s)
    return tape


def _gives(seqs: list[int]) -> GroupTape:
    """Three ranks give an object each; what the first gets."""
    tape = GroupTape().gathers(0, 0, seqs)
    return tape.gathers(1, 1, [0, 1, 2]).gathers(2, 2, [0, 1, 2])


def _leaves(outcome: str) -> GroupTape:
    tape = GroupTape().posts(0, 1, 0).takes(1, 0, 0)
    tape.tell("rank-1", "begin", op="leave")
    tape.tell("rank-1", "end", op="leave", outcome=outcome, error="")
    return tape


def _stands(tape: GroupTape) -> GroupTape:
    tape.later(8000).hangs("rank-0", "barrier")
    return tape


@pytest.mark.parametrize(
    "tape",
    [
        GroupTape().posts(0, 1, 0).posts(0, 1, 1).takes(1, 0, 0).takes(1, 0, 1),
        GroupTape().airs(0, 0).hears(1, 0, 0).hears(2, 0, 0),
        GroupTape().misses(1, 0, "timeout").posts(0, 1, 0).takes(1, 0, 0),
        _receives("timeout", 50),
        _meets(),
        _meets(absent=2, outcome="timeout"),
        _gives([0, 1, 2]),
        _leaves("ok"),
    ],
    ids=[
        "in order",
        "a broadcast",
        "nothing to receive",
        "just sent",
        "a barrier",
        "a rank is absent",
        "a gather",
        "a leave",
    ],
)
def test_what_could_have_been_is_held(tape: GroupTape) -> None:
    assert group_judged("H2", tape).violations == []


@pytest.mark.parametrize(
    ("tape", "kind"),
    [
        (GroupTape().posts(0, 1, 0).posts(0, 1, 1).takes(1, 0, 1), "lost"),
        (GroupTape().posts(0, 1, 0).takes(1, 0, 0).takes(1, 0, 0), "duplicate"),
        (GroupTape().posts(0, 1, 0).takes(1, 0, 0, "half"), "wrong-data"),
        (GroupTape().posts(2, 1, 5).takes(1, 0, 5), "wrong-data"),
        (GroupTape().posts(0, 1, 0, "error", "no"), "lost"),
        (GroupTape().airs(0, 0).airs(0, 1).hears(1, 0, 1).hears(1, 0, 0), "reordered"),
        (GroupTape().misses(1, 0, "error"), "lost"),
        (_receives("timeout", 150), "lost"),
        (_meets(absent=2), "no-error"),
        (_meets(outcome="timeout"), "lost"),
        (_meets(absent=2, outcome="timeout", s=0.5), "late"),
        (_meets(absent=2, outcome="timeout", s=2.0), "late"),
        (_meets(absent=1, outcome="timeout"), "no-error"),
        (_gives([1, 0, 2]), "reordered"),
        (_gives([0, 1, 1]), "lost"),
        (_leaves("error"), "lost"),
        (_stands(GroupTape().comes(0, None).comes(1, None)), "hang"),
    ],
    ids=[
        "skipped",
        "twice",
        "changed",
        "another rank's",
        "a send fails",
        "broadcasts swapped",
        "a receive fails",
        "a receive runs out",
        "a barrier without a rank",
        "a barrier that all reached",
        "too early",
        "too late",
        "who is absent is not said",
        "out of rank order",
        "an object is missing",
        "a leave fails",
        "a hang",
    ],
)
def test_what_could_not_have_been_is_told(tape: GroupTape, kind: str) -> None:
    assert group_convicted("H2", tape).kind == kind


def test_lanes_of_a_group_are_judged_as_its_order_is() -> None:
    tape = GroupTape().posts(0, 1, 0).takes(1, 0, 0)
    found = group_judged("H2", tape)
    assert found.violations == []
    assert (found.counts["messages"], found.counts["lanes"]) == (1, 1)
    swapped = GroupTape().posts(0, 1, 0).posts(0, 1, 1).takes(1, 0, 1).takes(1, 0, 0)
    assert group_convicted("H2", swapped).kind == "reordered"


def _four_at_a_barrier(error: str, *, came_after: float = 300) -> GroupTape:
    """Ranks 0 and 2 wait for a second, rank 1 comes later and waits on, rank 3 never comes."""
    tape = GroupTape().comes(0).comes(2)
    tape.later(came_after)
    tape.comes(1)
    tape.later(1000 - came_after)
    tape.goes(0, "timeout", error=error, s=1.0)
    tape.goes(2, "timeout", error="waited for rank 3", s=1.0)
    tape.later(came_after)
    return tape.goes(1, "timeout", error="waited for rank 3", s=1.0)


def test_a_rank_that_came_in_time_is_not_to_blame() -> None:
    found = group_convicted("H2", _four_at_a_barrier("waited for ranks 1, 3"), ranks=4)
    assert (found.kind, found.level) == ("no-error", "SHOULD")
    assert found.cause.startswith("rank-0's barrier blamed rank-1, which had come and still waited")


@pytest.mark.parametrize(
    "error",
    [
        "waited for rank 3",
        "rank 1 has come, rank 3 has not",
        "ranks 1, 2, 3 were to come",
        "ranks 0, 1, 2, 3 at a barrier",
    ],
)
def test_a_list_that_tells_no_ranks_apart_blames_nobody(error: str) -> None:
    assert group_judged("H2", _four_at_a_barrier(error), ranks=4).violations == []


def test_a_rank_that_came_just_now_may_be_blamed() -> None:
    tape = _four_at_a_barrier("waited for ranks 1, 3", came_after=950)
    assert group_judged("H2", tape, ranks=4).violations == []


def _gather_with_a_death(
    outcome: str,
    seqs: list[int] | None = None,
    *,
    took: float = 15.0,
    error: str = "rank 2 died",
    last_comes: bool = True,
) -> GroupTape:
    """Rank 2 dies after it has given its object; then rank 1 comes, the last one, if it does."""
    tape = GroupTape()
    for rank in (0, 2):
        tape.tell(f"rank-{rank}", "gather", seq=rank, size=64, digest=f"d{rank}", timeout=took)
    tape.later(300)
    tape.kills("rank-2")
    if last_comes:
        tape.tell("rank-1", "gather", seq=1, size=64, digest="d1", timeout=took)
    tape.later(took * 1000)
    got = {"seqs": seqs or [], "digests": [f"d{seq}" for seq in seqs or []]}
    for rank in (0, 1)[: 2 if last_comes else 1]:
        about = {"outcome": outcome, "error": error, "s": took, **got}
        tape.tell(f"rank-{rank}", "gathered", **about)
    return tape


@pytest.mark.parametrize(
    "tape",
    [
        _gather_with_a_death("ok", [0, 1, 2]),
        _gather_with_a_death("peer-died"),
        _gather_with_a_death("timeout", took=11.0),
        _gather_with_a_death("timeout", last_comes=False),
    ],
    ids=["given", "told", "in time", "not the dead one's fault"],
)
def test_a_gather_with_a_dead_rank_may_end_so(tape: GroupTape) -> None:
    assert group_judged("H2", tape).violations == []


def test_a_gather_does_not_wait_for_a_dead_rank() -> None:
    found = group_convicted("H2", _gather_with_a_death("timeout"))
    assert found.kind == "no-error"
    assert "it was never told of a rank's death" in found.cause


def test_a_gather_that_fails_for_a_death_names_the_dead() -> None:
    found = group_convicted("H2", _gather_with_a_death("peer-died", error="somebody died"))
    assert (found.kind, found.level) == ("no-error", "SHOULD")


def test_a_gather_does_not_fail_for_a_death_to_come() -> None:
    tape = GroupTape().tell("rank-0", "gather", seq=0, size=64, digest="d0", timeout=2.0)
    tape.tell("rank-0", "gathered", outcome="error", error="rank 2 died", s=0.1)
    found = group_convicted("H2", tape.later(500).kills("rank-2"))
    assert found.kind == "lost"
    assert "before any rank was dead" in found.cause


def test_a_gather_with_a_dead_rank_gives_what_was_given() -> None:
    found = group_convicted("H2", _gather_with_a_death("ok", [0, 1, 1]))
    assert found.kind == "lost"
    assert "gave objects [0, 1, 1] where [0, 1, 2] were given" in found.cause


def test_a_send_between_the_living_may_fail_if_it_tells_who_died() -> None:
    tape = GroupTape().kills("rank-2").posts(0, 1, 0, "peer-died", "rank 2 died")
    assert group_judged("H2", tape).violations == []
    tape = GroupTape().kills("rank-2").posts(0, 1, 0, "error", "no buffer space")
    assert group_convicted("H2", tape).kind == "lost"


@pytest.mark.parametrize(("fault", "over"), [("cut", "heal"), ("stop", "continue")])
def test_an_absence_as_long_as_the_silence_shows_nothing(fault: str, over: str) -> None:
    def away(ms: float) -> GroupTape:
        tape = GroupTape().posts(0, 1, 0)
        tape.tell("director", "fault", fault=fault, target="rank-1").later(ms)
        tape.tell("director", "fault", fault=over, target="rank-1")
        return tape

    with pytest.raises(Inconclusive, match=f"a {fault} lasted 9.5 s, too near to the silence"):
        group_judged("H2", away(9500))
    assert group_judged("H2", away(500)).violations == []


def test_what_was_sent_before_the_host_left_arrives() -> None:
    tape = GroupTape().posts(1, 2, 0)
    tape.tell("rank-0", "begin", op="leave").tell("rank-0", "end", op="leave", outcome="ok")
    tape.misses(2, 1, "closed", error="rank 0 has left")
    assert group_convicted("H2", tape).kind == "lost"
