"""Exceptions in a pipe's calls, on histories told by hand (R9)."""

from __future__ import annotations

import pytest
from pipe_tape import PipeTape, pipe_convicted, pipe_judged

from killpoint.scenario import Fault, Point
from killpoint.verdict import Kind

STRIKE = Fault("raise", "pipe-0", Point("pipe-send", line=3))


def struck(*, sent: str = "injected") -> PipeTape:
    tape = PipeTape().gives(0, 0).gets(1, 0)
    tape.tell("pipe-0", "raised", where="sending.py:1 in send")
    return tape.gives(0, 1, sent)


@pytest.mark.parametrize("came", [True, False])
def test_a_struck_send_may_have_been_made_or_not(came: bool) -> None:
    tape = struck().gives(0, 2)
    tape = (tape.gets(1, 1) if came else tape).gets(1, 2).misses(1, "closed")
    found = pipe_judged("R9", tape, STRIKE)
    assert (found.violations, found.counts) == ([], {"exceptions": 1})


def test_the_taker_may_be_told_in_a_struck_tensors_place() -> None:
    tape = struck().misses(1, "failed").gives(0, 2).gets(1, 2).misses(1, "closed")
    assert not pipe_judged("R9", tape, STRIKE).violations


def test_an_exception_that_never_came_out_is_counted() -> None:
    tape = struck(sent="ok").gets(1, 1).misses(1, "closed")
    assert pipe_judged("R9", tape, STRIKE).counts == {"exceptions": 1, "swallowed": 1}


@pytest.mark.parametrize(
    ("tape", "kind", "words"),
    [
        (struck().gets(1, 1).gets(1, 1), "duplicate", "has come before"),
        (struck().gives(0, 2, "error"), "lost", "send of tensor 2 (int8 4) failed"),
        (struck().gives(0, 2).misses(1, "error"), "lost", "receive failed"),
        (struck(sent="ok").misses(1, "failed"), "lost", "no send of pipe-0 had been struck"),
        (struck().misses(1, "failed").misses(1, "failed"), "lost", "no send of pipe-0 had been"),
        (struck().gives(0, 2).misses(1, "closed"), "lost", "tensor 2 (int8 4) was accepted"),
        (struck().gives(0, 2).gives(0, 3).gets(1, 3), "lost", "never came"),
        (struck().closes(0, "error"), "lost", "close failed"),
        (struck().asks(1).hangs("pipe-1", "pipe-receive"), "hang", "pipe-1 still waited"),
    ],
)
def test_what_a_strike_has_spoilt_is_named(tape: PipeTape, kind: Kind, words: str) -> None:
    found = pipe_convicted("R9", tape, STRIKE)
    assert found.kind == kind
    assert words in found.cause


def opened(*outcomes: str) -> PipeTape:
    tape = PipeTape()
    tape.tell("pipe-0", "raised", where="meeting.py:1 in meet")
    for outcome in outcomes:
        tape.ordered("pipe-0", "pipe-open", outcome)
        tape.ordered("pipe-1", "pipe-open", "peer-died" if outcome == "injected" else outcome)
    return tape


def test_an_end_that_was_struck_is_made_anew() -> None:
    tape = opened("injected", "ok").closes(1, "lost").gives(0, 0).gets(1, 0)
    assert not pipe_judged("R9", tape, STRIKE).violations
    never = pipe_convicted("R9", opened("injected", "error"), STRIKE)
    assert "could not be made after an exception had struck pipe-0" in never.cause
