"""Judges of a queue's life: handshake (Q10), endings (Q11), what a clean end owes (Q16)."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive, Lacking
from killpoint.scenario import Attach, Close, Drop, Exit, Ready

_READY = Ready(("all",), timeout=1.0)

# -- Q10 ------------------------------------------------------------------------------------


def _opened() -> Tape:
    return Tape().ordered("writer", "make").ordered("reader-0", "attach")


@pytest.mark.parametrize(("outcome", "s"), [("ok", 0.1), ("timeout", 1.0), ("peer-died", 0.2)])
def test_a_handshake_that_ends_by_its_deadline_is_held(outcome: str, s: float) -> None:
    finding = judged("Q10", _opened().ordered("writer", "ready", outcome, s=s), _READY)
    assert finding.violations == []
    assert finding.counts == {"handshakes": 1}


def test_a_handshake_beyond_its_deadline_is_late() -> None:
    found = convicted("Q10", _opened().ordered("writer", "ready", "timeout", s=3.0), _READY)
    assert found.kind == "late"
    assert "writer's handshake" in found.cause


def test_a_handshake_that_never_ends_is_a_hang() -> None:
    tape = _opened().tell("writer", "begin", op="ready").later(4000).hangs("writer", "ready")
    assert convicted("Q10", tape, _READY).kind == "hang"


def test_a_writer_that_is_ready_without_one_of_its_readers_counted_a_departure() -> None:
    tape = _opened().kills("reader-0").ordered("writer", "ready")
    found = convicted("Q10", tape, Attach(("reader-0",)), _READY, readers=2)
    assert found.kind == "no-error"
    assert "reader-1 never attached" in found.cause


def test_q10_without_a_handshake_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("Q10", _opened(), _READY)


def test_each_party_is_judged_by_its_own_deadline() -> None:
    steps = (Ready(("reader-0",), timeout=9.0), Ready(("writer",), timeout=1.0))
    tape = _opened().ordered("writer", "ready", "timeout", s=7.0)
    assert convicted("Q10", tape, *steps).kind == "late"


def test_a_reader_that_died_while_attaching_never_came() -> None:
    tape = Tape().ordered("writer", "make").tell("reader-0", "begin", op="attach")
    tape.kills("reader-0").ordered("writer", "ready")
    assert convicted("Q10", tape, _READY).kind == "no-error"


# -- Q11 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["close", "drop"])
def test_an_ending_within_two_seconds_is_held_and_a_longer_one_late(op: str) -> None:
    steps = (Close(),) if op == "close" else (Drop(("writer",)),)
    assert judged("Q11", Tape().ordered("writer", op, s=1.5), *steps).violations == []
    found = convicted("Q11", Tape().ordered("writer", op, s=2.6), *steps)
    assert found.kind == "late"
    assert f"writer's {op} took 2.6 s" in found.cause


def test_an_interpreter_is_judged_by_the_time_to_the_end_of_its_process() -> None:
    quick = Tape().ordered("writer", "exit").later(900).exits("writer")
    slow = Tape().ordered("writer", "exit").later(4500).exits("writer")
    assert judged("Q11", quick, Exit(("writer",))).violations == []
    assert convicted("Q11", slow, Exit(("writer",))).kind == "late"


def test_slow_exit_handlers_are_a_slow_exit() -> None:
    tape = Tape().ordered("writer", "exit", s=4.6).exits("writer")
    assert convicted("Q11", tape, Exit(("writer",), brief=True)).kind == "late"


@pytest.mark.parametrize("op", ["close", "drop", "exit", "interpreter exit"])
def test_an_ending_that_does_not_end_is_a_hang(op: str) -> None:
    assert convicted("Q11", Tape().hangs("reader-0", op), Close()).kind == "hang"


@pytest.mark.parametrize("step", [Drop(("writer",)), Exit(("writer",))])
def test_q11_without_the_ending_it_asked_for_is_inconclusive(step: Drop | Exit) -> None:
    with pytest.raises(Inconclusive):
        judged("Q11", Tape().sent(0).gets(0), step)


# -- Q16 ------------------------------------------------------------------------------------


def _sent_and_closed(count: int, size: int = 64) -> Tape:
    tape = Tape()
    for seq in range(count):
        tape.sent(seq, size=size)
    return tape.ordered("writer", "close").exits("writer")


def test_all_that_was_enqueued_arrives_after_the_close() -> None:
    tape = _sent_and_closed(2).gets(0).gets(1).fails("closed")
    assert judged("Q16", tape).violations == []


def test_a_reader_that_is_told_the_number_lost_is_told_enough() -> None:
    tape = _sent_and_closed(3).gets(0).fails("lost", error="MessagesLost: 2 messages were lost")
    assert judged("Q16", tape).violations == []


def test_a_reader_that_is_told_a_wrong_number_is_not_told() -> None:
    tape = _sent_and_closed(4).gets(0).fails("lost", error="MessagesLost: 1 message was lost")
    assert convicted("Q16", tape).kind == "lost"


@pytest.mark.parametrize("how", ["closed", "timeout", "peer-died"])
def test_a_loss_in_silence_is_counted_and_names_the_overflow_path(how: str) -> None:
    tape = _sent_and_closed(3, size=5000).gets(0).fails(how)
    found = convicted("Q16", tape)
    assert found.kind == "lost"
    for word in ("2 of 3 messages", "reader-0", "still on its way", how):
        assert word in found.cause


def _ended_late(op: str, took: float, denied: float) -> Tape:
    """The writer's end takes so many seconds, in so many of which it could not run."""
    tape = Tape()
    for seq in range(3):
        tape.sent(seq, size=5000)
    if op == "exit":
        tape.ordered("writer", "exit").later(took * 1000)
    else:
        tape.ordered("writer", op, s=took)
    tape.tell("director", "denied", target="writer", ns=int(denied * 1e9), over=0)
    return tape.exits("writer").gets(0).fails("peer-died")


@pytest.mark.parametrize("op", ["close", "drop", "exit"])
@pytest.mark.parametrize(("took", "denied"), [(2.3, 2.0), (1.6, 1.4)])
def test_a_writer_that_had_no_processor_while_it_ended_could_not_send(
    op: str, took: float, denied: float
) -> None:
    with pytest.raises(Inconclusive, match=f"the writer's {op} took {took} s, and for most of"):
        judged("Q16", _ended_late(op, took, denied))


@pytest.mark.parametrize(("took", "denied"), [(2.3, 0.5), (0.5, 0.45)])
def test_a_writer_that_had_a_processor_or_did_not_use_its_time_has_lost_them(
    took: float, denied: float
) -> None:
    assert convicted("Q16", _ended_late("exit", took, denied)).kind == "lost"


def test_a_torn_message_after_the_close_is_wrong_data() -> None:
    assert convicted("Q16", _sent_and_closed(2).gets(0).gets(1, digest="x")).kind == "wrong-data"


def test_q16_is_inconclusive_where_nothing_was_enqueued() -> None:
    with pytest.raises(Inconclusive):
        judged("Q16", Tape().ordered("writer", "close"))


def test_a_torn_message_is_wrong_data_also_if_others_were_reported_lost() -> None:
    tape = _sent_and_closed(3).gets(0, digest="x").fails("lost", error="2 messages were lost")
    assert convicted("Q16", tape).kind == "wrong-data"


def test_a_line_number_is_not_the_number_lost() -> None:
    tape = _sent_and_closed(3).gets(0).fails("lost", error="MessagesLost: some (queue.py:2)")
    assert convicted("Q16", tape).kind == "lost"


def test_a_loss_that_is_reported_and_did_not_happen_is_violated() -> None:
    tape = _sent_and_closed(1).gets(0).fails("lost", error="MessagesLost: 2 messages were lost")
    assert judged("Q16", tape).violations != []


def test_a_queue_that_holds_nothing_large_unread_cannot_be_asked_what_becomes_of_it() -> None:
    tape = Tape().sent(0, "timeout", form="array", size=10_000_000, s=5.0)
    with pytest.raises(Lacking, match="takes no more unread messages"):
        judged("Q16", tape)
