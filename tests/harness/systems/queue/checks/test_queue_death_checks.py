"""Judges of death: the survivors lose nothing that was whole, and are told (Q6, Q7)."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive

# -- Q6: the writer dies --------------------------------------------------------------------


@pytest.mark.parametrize("told", ["peer-died", "closed", "error"])
def test_messages_then_an_error_is_what_a_writers_death_owes(told: str) -> None:
    tape = Tape().sent(0).sent(1).kills("writer").gets(0).gets(1).fails(told, after=0.4)
    assert judged("Q6", tape).violations == []


def test_q6_without_a_death_is_inconclusive() -> None:
    for tape in (Tape().sent(0).gets(0), Tape().sent(0).gets(0).exits("writer", code=3)):
        with pytest.raises(Inconclusive):
            judged("Q6", tape)


def test_q6_with_no_reader_left_to_be_told_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("Q6", Tape().sent(0).kills("reader-0").kills("writer"))


def test_a_message_in_flight_at_the_death_may_arrive_or_not() -> None:
    for arrives in (True, False):
        tape = Tape().sent(0).sends(1).kills("writer").gets(0)
        if arrives:
            tape.gets(1)
        assert judged("Q6", tape.fails("peer-died")).violations == []


def test_an_overflow_payload_may_die_with_its_writer() -> None:
    tape = Tape().sent(0).sent(1, form="array", size=9000).sent(2).kills("writer").gets(0)
    assert judged("Q6", tape.fails("peer-died")).violations == []


def test_a_whole_message_that_never_arrives_is_lost_at_the_tail_too() -> None:
    found = convicted("Q6", Tape().sent(0).sent(1).kills("writer").gets(0).fails("peer-died"))
    assert found.kind == "lost"
    assert "message 1" in found.cause
    assert "reader-0" in found.cause


def test_a_torn_message_after_the_death_is_wrong_data() -> None:
    tape = Tape().sent(0).sends(1).kills("writer").gets(0).gets(1, digest="half")
    assert convicted("Q6", tape.fails("peer-died")).kind == "wrong-data"


def test_a_repeated_message_after_the_death_is_a_duplicate() -> None:
    tape = Tape().sent(0).sent(1).kills("writer").gets(0).gets(1).gets(1).fails("peer-died")
    assert convicted("Q6", tape).kind == "duplicate"


def test_a_reader_that_waits_for_ever_hangs() -> None:
    tape = Tape().sent(0).gets(0).kills("writer").waits().later(4000).hangs("reader-0", "receive")
    found = convicted("Q6", tape)
    assert found.kind == "hang"
    assert "writer, dead by signal 9" in found.cause


def test_a_reader_that_only_ran_into_its_own_timeout_was_not_told() -> None:
    tape = Tape().sent(0).gets(0).kills("writer").fails("timeout", after=5.0, timeout=5.0)
    found = convicted("Q6", tape)
    assert found.kind == "no-error"
    assert "reader-0 was never told" in found.cause


def test_more_than_two_seconds_is_late_and_a_late_machine_is_forgiven() -> None:
    tape = Tape().sent(0).gets(0).waits().kills("writer").later(2500).ends("peer-died", s=2.5)
    assert convicted("Q6", tape).kind == "late"
    tape = Tape().sent(0).gets(0).waits().kills("writer").later(2400).late(400).later(99)
    assert judged("Q6", tape.ends("peer-died", s=2.5)).violations == []


def test_an_error_long_before_the_death_tells_nobody_of_it() -> None:
    tape = Tape().sent(0).gets(0).fails("peer-died").later(1500).kills("writer")
    tape.waits().later(4000).hangs("reader-0", "receive")
    calm = Tape().sent(0).gets(0).fails("peer-died").later(1500).kills("writer")
    assert convicted("Q6", tape).kind == "hang"
    with pytest.raises(Inconclusive):
        judged("Q6", calm)


def test_a_reader_told_by_a_close_that_the_death_cut_off_was_told() -> None:
    tape = Tape().sent(0).gets(0).tell("writer", "begin", op="close").fails("closed")
    assert judged("Q6", tape.later(500).kills("writer")).violations == []


def test_a_reader_that_made_no_call_after_the_death_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("Q6", Tape().sent(0).gets(0).later(3000).kills("writer"))


def test_a_reader_whose_timeout_ended_within_two_seconds_was_not_late() -> None:
    tape = Tape().sent(0).gets(0).kills("writer").fails("timeout", after=0.2, timeout=0.2)
    with pytest.raises(Inconclusive):
        judged("Q6", tape)


def test_two_seconds_count_from_the_death_when_a_call_was_pending() -> None:
    tape = Tape().sent(0).gets(0).waits().kills("writer").later(1500).ends("timeout", s=1.5)
    tape.fails("timeout", after=1.5).fails("peer-died", after=1.5)
    assert convicted("Q6", tape).kind == "late"


# -- Q7: a reader dies ----------------------------------------------------------------------


def _dead_reader() -> Tape:
    return Tape().sent(0).gets(0, "reader-0").gets(0, "reader-1").kills("reader-0")


def _q7(tape: Tape) -> str:
    return convicted("Q7", tape, readers=2).kind


@pytest.mark.parametrize("told", ["peer-died", "error", "closed"])
def test_a_writer_that_errs_within_two_seconds_is_right(told: str) -> None:
    tape = _dead_reader().sent(1, told, s=1.0)
    assert judged("Q7", tape, readers=2).violations == []


def test_a_writer_that_goes_on_with_the_others_is_right_if_they_lose_nothing() -> None:
    assert judged("Q7", _dead_reader().sent(1).gets(1, "reader-1"), readers=2).violations == []
    assert _q7(_dead_reader().sent(1).fails("timeout", reader="reader-1")) == "lost"


def test_q7_without_a_dead_reader_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("Q7", Tape().sent(0).gets(0).kills("writer"))


def test_q7_without_a_call_of_the_writer_after_the_death_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("Q7", _dead_reader(), readers=2)


def test_a_writer_that_waits_for_the_dead_hangs() -> None:
    assert _q7(_dead_reader().sends(1).later(4000).hangs("writer", "send")) == "hang"


def test_a_writer_that_ran_into_its_own_long_timeout_was_not_told() -> None:
    tape = _dead_reader().sent(1, "timeout", s=5.0)
    found = convicted("Q7", tape, readers=2)
    assert found.kind == "no-error"
    assert "message 1" in found.cause


def test_a_writer_told_after_more_than_two_seconds_was_told_late() -> None:
    assert _q7(_dead_reader().sent(1, "peer-died", s=2.5)) == "late"


def test_a_message_torn_at_a_surviving_reader_is_wrong_data() -> None:
    assert _q7(_dead_reader().sent(1).gets(1, "reader-1", digest="half")) == "wrong-data"


def test_a_writer_whose_own_timeout_was_shorter_than_two_seconds_is_right() -> None:
    tape = _dead_reader().sent(1, "timeout", s=0.2)
    assert judged("Q7", tape, readers=2).violations == []


def test_a_writer_that_goes_on_after_five_seconds_was_late() -> None:
    assert _q7(_dead_reader().sent(1, "ok", s=5.0).gets(1, "reader-1")) == "late"


def test_a_survivor_that_stopped_reading_before_the_writer_could_know_lost_nothing() -> None:
    tape = _dead_reader().sends(1).fails("timeout", "reader-1", after=1.5, timeout=1.5)
    tape.tell("writer", "sent", seq=1, outcome="ok", s=1.7).sent(2)
    assert judged("Q7", tape, readers=2).violations == []


def test_a_writer_that_hung_before_any_reader_died_says_nothing_of_a_death() -> None:
    tape = Tape().sent(0).sends(1).later(4000).hangs("writer", "send").kills("reader-0")
    with pytest.raises(Inconclusive, match="hung in send before"):
        judged("Q7", tape, readers=2)


def test_a_reader_that_hung_before_the_writer_died_says_nothing_of_a_death() -> None:
    tape = Tape().sent(0).gets(0).waits().later(4000).hangs("reader-0", "receive").kills("writer")
    with pytest.raises(Inconclusive, match="hung in receive before"):
        judged("Q6", tape)


def test_a_send_of_a_large_message_that_had_returned_is_named() -> None:
    tape = Tape().sent(0).gets(0).waits().sent(1, size=5000).kills("writer")
    found = convicted("Q6", tape.hangs("reader-0", "receive"))
    assert found.kind == "hang"
    assert "the send of message 1 (5000 bytes, larger than a slot) had returned" in found.cause
