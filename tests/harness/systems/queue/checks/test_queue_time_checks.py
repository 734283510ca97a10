"""Judges of time: deadlines, cancels and wake-ups (Q8, Q9)."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import Message, Receive, Send

# -- Q9 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0.3, 0.0, -1.0])
def test_a_receive_that_ends_at_its_deadline_is_held(timeout: float) -> None:
    tape = Tape().fails("timeout", after=max(timeout, 0.0) + 0.05, timeout=timeout)
    finding = judged("Q9", tape)
    assert finding.violations == []
    assert finding.counts == {"waits": 1}


@pytest.mark.parametrize(("took", "word"), [(0.25, "too early"), (0.6, "took 0.60 s")])
def test_a_receive_that_ends_early_or_late_is_violated(took: float, word: str) -> None:
    found = convicted("Q9", Tape().fails("timeout", after=took, timeout=0.3))
    assert found.kind == "late"
    assert "reader-0" in found.cause
    assert word in found.cause


def test_a_send_is_judged_by_the_timeout_of_its_step() -> None:
    step = Send([Message()], timeout=0.3)
    assert judged("Q9", Tape().sent(0, "timeout", s=0.31), step).violations == []
    found = convicted("Q9", Tape().sent(0, "timeout", s=0.9), step)
    assert found.kind == "late"
    assert "writer" in found.cause


def test_what_a_late_machine_adds_to_a_wait_is_forgiven() -> None:
    tape = Tape().waits(timeout=0.3).later(500).late(150).later(150).ends("timeout", s=0.65)
    assert judged("Q9", tape).violations == []


def test_a_late_machine_long_before_forgives_nothing() -> None:
    tape = Tape().late(900).later(5000).fails("timeout", after=0.7, timeout=0.3)
    assert convicted("Q9", tape).kind == "late"


def test_a_call_that_does_not_end_is_a_hang() -> None:
    tape = Tape().waits(timeout=0.3).later(4000).hangs("reader-0", "receive")
    assert convicted("Q9", tape).kind == "hang"


def test_q9_without_a_wait_that_ran_out_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("Q9", Tape().sent(0).gets(0))


def test_a_receive_that_brings_its_message_after_its_deadline_is_late() -> None:
    tape = Tape().sends(0).waits(timeout=0.3).later(3000)
    tape.tell("reader-0", "got", outcome="ok", seq=0, digest="d0", s=3.0)
    assert convicted("Q9", tape).kind == "late"


def test_a_late_send_is_late_also_if_another_step_had_another_timeout() -> None:
    steps = (Send([Message()], timeout=5.0), Send([Message()], timeout=0.3))
    tape = Tape().sent(0).sent(1, "timeout", s=4.0).fails("timeout", after=0.3, timeout=0.3)
    assert convicted("Q9", tape, *steps).kind == "late"


def _cancelled(after_ms: float, outcome: str = "cancelled") -> Tape:
    tape = Tape().waits().later(200).tell("reader-0", "cancel").later(after_ms)
    return tape.ends(outcome, s=(200 + after_ms) / 1000)


@pytest.mark.parametrize("outcome", ["cancelled", "closed", "error"])
def test_a_cancel_that_wakes_within_100_ms_is_held(outcome: str) -> None:
    assert judged("Q9", _cancelled(50, outcome)).violations == []


def test_a_cancel_that_wakes_later_is_late() -> None:
    found = convicted("Q9", _cancelled(180))
    assert found.kind == "late"
    assert "reader-0 woke" in found.cause


@pytest.mark.parametrize("outcome", ["ok", "timeout"])
def test_a_cancel_that_did_not_end_the_call_is_a_hang(outcome: str) -> None:
    found = convicted("Q9", _cancelled(400, outcome))
    assert found.kind == "hang"
    assert "reader-0" in found.cause


def test_a_call_whose_message_was_there_when_the_cancel_came_says_nothing() -> None:
    with pytest.raises(Inconclusive):
        judged("Q9", _cancelled(20, "ok"))
    tape = Tape().waits().later(200).tell("reader-0", "cancel").later(900)
    with pytest.raises(Inconclusive):  # it returned at once; looking at a large one took long
        judged("Q9", tape.tell("reader-0", "got", outcome="ok", seq=0, digest="d0", s=0.21))


def test_a_cancel_that_nothing_follows_is_a_hang() -> None:
    assert convicted("Q9", Tape().waits().tell("reader-0", "cancel")).kind == "hang"


# -- Q8 -------------------------------------------------------------------------------------


def _idle(took_ms: float) -> Tape:
    tape = Tape().waits().later(300).sent(0).later(took_ms)
    return tape.gets(0)


def test_an_idle_reader_that_hears_at_once_is_held_and_counted() -> None:
    finding = judged("Q8", _idle(20), Receive(1))
    assert finding.violations == []
    assert finding.counts == {"wake-ups": 1}


@pytest.mark.parametrize(
    ("steps", "wakes"),
    [([Send([Message(repeat=2)])], 1), ([Send([Message()]), Send([Message()])], 2)],
)
def test_messages_of_one_step_are_one_wake_up(steps: list[Send], wakes: int) -> None:
    tape = _idle(5).waits().later(300).sent(1).later(5).gets(1)
    assert judged("Q8", tape, *steps, Receive(2)).counts == {"wake-ups": wakes}


def test_an_idle_reader_that_hears_after_more_than_100_ms_is_late() -> None:
    found = convicted("Q8", _idle(150), Receive(1))
    assert found.kind == "late"
    assert "message 0" in found.cause


def test_an_idle_reader_that_never_wakes_hangs() -> None:
    tape = Tape().waits().sent(0).later(8000).hangs("reader-0", "receive")
    assert convicted("Q8", tape, Receive(1)).kind == "hang"


def test_an_idle_reader_that_times_out_with_a_message_published_was_not_woken() -> None:
    tape = Tape().waits(timeout=2.0).later(300).sent(0).later(1700).ends("timeout", s=2.0)
    tape.gets(0)
    assert judged("Q8", tape, Receive(2, timeout=2.0)).violations != []


def test_a_reader_that_never_waited_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged("Q8", Tape().sent(0).gets(0), Receive(1))
