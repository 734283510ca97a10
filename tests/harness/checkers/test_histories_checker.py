"""Judges of histories of many parties at once: of a queue (H1), a group (H2) and a pool (H3)."""

from __future__ import annotations

import pytest
from group_tape import GroupTape, group_convicted, group_judged
from pool_tape import PoolTape, pool_convicted, pool_judged
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive
from killpoint.checkers.overlap import overlap


def test_pairs_that_have_a_time_in_common_are_counted_once() -> None:
    spans = [(0, 10), (20, 30), (5, 25), (30, 40)]
    assert overlap(spans) == {"operations": 4, "overlapping pairs": 3}
    assert overlap([]) == {"operations": 0, "overlapping pairs": 0}


# -- a queue ----------------------------------------------------------------------------------


def _two_sent() -> Tape:
    return Tape().sent(0).sent(1)


def test_a_life_that_could_have_been_is_counted() -> None:
    found = judged("H1", _two_sent().gets(0).fails("timeout", after=0.02, timeout=0.02).gets(1))
    assert found.violations == []
    assert found.counts["messages"] == 2
    assert found.counts["operations"] == 5
    assert found.counts["states"] == 3


@pytest.mark.parametrize(
    ("tape", "kind", "words"),
    [
        (_two_sent().gets(0).gets(0), "duplicate", "message 0 a second time"),
        (_two_sent().gets(1).gets(0), "reordered", "message 1 before message 0"),
        (_two_sent().gets(1), "lost", "which never arrived"),
        (_two_sent().gets(0, digest="other"), "wrong-data", "different from what was sent"),
        (Tape().sent(0, "timeout", s=0.05).gets(0), "wrong-data", "whose send had ended with"),
        (Tape().sent(0, "error").sent(1).gets(1), "lost", "no party was gone: error"),
        (_two_sent().fails("error"), "lost", "receive raised"),
        (_two_sent().fails("peer-died"), "lost", "no party was gone: peer-died"),
    ],
    ids=lambda each: each.replace(" ", "-")[:24] if isinstance(each, str) else "",
)
def test_what_could_not_have_been_is_told(tape: Tape, kind: str, words: str) -> None:
    found = convicted("H1", tape)
    assert found.kind == kind
    assert words in found.cause


def test_a_message_cannot_come_before_it_is_sent() -> None:
    tape = Tape().waits().tell("reader-0", "got", outcome="ok", seq=0, digest="d0", s=0.001)
    found = convicted("H1", tape.sent(0))
    assert found.kind == "wrong-data"
    assert found.cause == "reader-0 had received message 0 before its send began"


def test_a_receive_may_time_out_until_a_message_has_been_there_for_a_while() -> None:
    soon = Tape().waits(timeout=0.2).sent(0).later(90).ends("timeout", s=0.2)
    assert judged("H1", soon).violations == []
    late = Tape().sent(0).later(150).fails("timeout", after=0.0, timeout=0.0)
    found = convicted("H1", late)
    assert found.kind == "starved"
    assert "took nothing, though message 0 had been published" in found.cause


def test_a_send_may_time_out_while_no_slot_is_free() -> None:
    full = _two_sent().sent(2, "timeout", s=0.4)  # there are two slots
    assert judged("H1", full).violations == []
    free = _two_sent().gets(0).later(150).sent(2, "timeout", s=0.0)
    found = convicted("H1", free)
    assert found.kind == "starved"
    assert found.cause == "message 2 (bytes, 64 bytes) found no room, and a slot was free"


def test_a_death_explains_failures_once_all_is_read() -> None:
    told = _two_sent().gets(0).gets(1).kills("writer").fails("peer-died")
    assert judged("H1", told).violations == []
    found = convicted("H1", _two_sent().gets(0).kills("writer").fails("peer-died"))
    assert found.cause.startswith("reader-0 was told of the writer's end before message 1")
    dead = Tape().kills("reader-0").sent(0, "peer-died")
    assert judged("H1", dead).violations == []


def test_a_message_that_cannot_be_decoded_fails_one_receive() -> None:
    tape = Tape().sent(0, form="undecodable").sent(1).fails("error").gets(1)
    assert judged("H1", tape).violations == []
    tape = Tape().sent(0, form="unencodable").sent(1).gets(1)
    assert convicted("H1", tape).kind == "lost"
    assert judged("H1", Tape().sent(0, "error", form="unencodable")).violations == []


def test_a_deadline_is_kept() -> None:
    found = convicted("H1", Tape().fails("timeout", after=0.5, timeout=0.05))
    assert found.kind == "late"


def test_what_is_held_stays_as_it_came() -> None:
    tape = Tape().sent(0).gets(0).tell("reader-0", "recheck", seq=0, same=False, digest="x")
    assert convicted("H1", tape).kind == "wrong-data"


def test_a_program_that_waited_for_a_party_at_rest_shows_nothing() -> None:
    tape = _two_sent().gets(0).sent(2).sends(3).hangs("writer", "send")
    with pytest.raises(Inconclusive, match="not told to go on"):
        judged("H1", tape)


# -- a group ----------------------------------------------------------------------------------


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


def test_no_object_is_pushed_out_by_later_ones() -> None:
    tape = GroupTape().posts(0, 1, 0).posts(0, 1, 1).takes(1, 0, 1)
    assert group_convicted("H2", tape).kind == "lost"


def test_a_barrier_that_all_reached_ends_well() -> None:
    tape = GroupTape().comes(0).comes(1).comes(2)
    for rank in range(3):
        tape.goes(rank, "timeout", error="waited for ranks", s=1.0)
    assert group_convicted("H2", tape).kind == "lost"


# -- a pool -----------------------------------------------------------------------------------


def test_calls_with_their_own_replies_are_held() -> None:
    found = pool_judged("H3", PoolTape().ready().called().called().stops())
    assert found.violations == []
    assert found.counts["replies"] == 4


def test_another_calls_reply_is_told() -> None:
    tape = PoolTape().ready().called("timeout").called(replies=[[0, 1], [1, 1]])
    assert pool_convicted("H3", tape).kind == "wrong-data"


@pytest.mark.parametrize("ended", ["error", "refused", "peer-died", "failed"])
def test_a_call_that_failed_for_nothing_is_lost(ended: str) -> None:
    found = pool_convicted("H3", PoolTape().ready().called(ended))
    assert found.kind == "lost"
    assert "no worker was gone" in found.cause
