"""Judges of pipes on histories told by hand: each wrong is named, each right one is not."""

from __future__ import annotations

import pytest
from pipe_tape import PipeTape, pipe_convicted, pipe_judged

from killpoint.checkers.finding import Inconclusive
from killpoint.verdict import Kind


def passed(*seqs: int) -> PipeTape:
    tape = PipeTape()
    for seq in seqs:
        tape.gives(0, seq).gets(1, seq)
    return tape


def test_k1_counts_what_came_as_it_was_sent() -> None:
    assert pipe_judged("K1", passed(0, 1, 2)).counts == {"tensors": 3}


@pytest.mark.parametrize(
    ("tape", "kind", "words"),
    [
        (passed(0).gives(0, 1).gets(1, 0), "duplicate", "has come before"),
        (passed(0).gives(0, 1).gives(0, 2).gets(1, 2), "lost", "never came"),
        (passed(0).gives(0, 1).gets(1, 1, "x"), "wrong-data", "nothing that pipe-0 sent"),
        (passed(0).gives(0, 1).misses(1, "error"), "lost", "receive failed"),
        (passed(0).gives(0, 1, "error", error="E"), "lost", "send of tensor 1 (int8 4) failed"),
        (passed(0).closes(0, "error"), "lost", "close failed"),
        (passed(0).asks(1).hangs("pipe-1", "pipe-receive"), "hang", "pipe-1 still waited"),
    ],
)
def test_k1_names_what_went_wrong(tape: PipeTape, kind: Kind, words: str) -> None:
    found = pipe_convicted("K1", tape)
    assert found.kind == kind
    assert words in found.cause


def test_an_error_that_comes_of_a_hang_is_not_its_cause() -> None:
    tape = passed(0).asks(1).asks(0).hangs("pipe-0", "pipe-receive")
    tape.misses(1, "peer-died", asked=True)
    assert pipe_convicted("K1", tape).kind == "hang"


def test_an_end_that_cannot_be_made_is_no_pipe() -> None:
    tape = PipeTape().ordered("pipe-0", "pipe-open", "error")
    assert "could not be made" in pipe_convicted("K1", tape).cause


def test_k5_tells_the_callers_later_bytes_from_any_others() -> None:
    right = PipeTape().gives(0, 0).changes(0, 0).gets(1, 0)
    assert pipe_judged("K5", right).counts == {"overwritten": 1}
    wrong = PipeTape().gives(0, 0).changes(0, 0).gets(1, 0, "changed0")
    assert "caller made of tensor 0" in pipe_convicted("K5", wrong).cause
    with pytest.raises(Inconclusive):
        pipe_judged("K5", passed(0))


def test_k7_wants_both_directions() -> None:
    both = passed(0).gives(1, 1).gets(0, 1)
    assert pipe_judged("K7", both).counts["directions"] == 2
    with pytest.raises(Inconclusive):
        pipe_judged("K7", passed(0))
    stuck = PipeTape().asks(0).asks(1).gives(0, 0).hangs("pipe-1", "pipe-meet")
    assert pipe_convicted("K7", stuck).kind == "hang"


def test_k2_wants_an_empty_buffer() -> None:
    assert pipe_judged("K2", passed(0).keeps(0, 0)).counts["looks"] == 1
    found = pipe_convicted("K2", passed(0).keeps(0, 64))
    assert (found.kind, "although all of it was taken" in found.cause) == ("leak", True)
    assert pipe_convicted("K2", passed(0).keeps(0, -4)).kind == "leak"
    failed = passed(0).gives(0, 1, "error").keeps(0, 4)
    assert "after pipe-0's send of tensor 1 (int8 4), which failed" in (
        pipe_convicted("K2", failed).cause
    )


def test_k2_says_what_a_sender_waits_for() -> None:
    tape = passed(0).gives(0, 1, form="meta").keeps(0, 4096)
    tape.gives(0, 2, "never").hangs("pipe-0", "pipe-send")
    found = pipe_convicted("K2", tape)
    assert found.kind == "hang"
    assert "4096 bytes stay in the buffer of pipe-0 after pipe-0's send of tensor 1" in found.cause


@pytest.mark.parametrize(("grown", "violations"), [(20 << 20, 0), (60 << 20, 1)])
def test_k2_bounds_the_memory_of_a_burst(grown: int, violations: int) -> None:
    tape = passed(0)
    tape.tell("pipe-0", "burst", before=100 << 20, peak=(100 << 20) + grown)
    found = pipe_judged("K2", tape, buffer_bytes=16 << 20).violations
    assert [each.kind for each in found] == ["growth"] * violations


def test_k3_wants_the_sender_to_be_told() -> None:
    tape = passed(0).gives(0, 1, form="meta").misses(1, "error").closes(0)
    found = pipe_convicted("K3", tape)
    assert found.kind == "no-error"
    assert "no later call told pipe-0, its close included" in found.cause


@pytest.mark.parametrize(
    "tape",
    [
        passed(0).gives(0, 1, "refused", form="meta").gives(0, 2).gets(1, 2),
        passed(0).gives(0, 1, form="meta").gives(0, 2, "failed").misses(1, "error"),
        passed(0).gives(0, 1, form="meta").misses(1, "failed").closes(0, "error"),
    ],
)
def test_k3_holds_where_both_were_told(tape: PipeTape) -> None:
    assert pipe_judged("K3", tape).counts == {"failures": 1}
    assert pipe_judged("K3", tape).violations == []


def test_k3_wants_the_taker_to_be_told_too() -> None:
    tape = passed(0).gives(0, 1, form="meta").asks(1).closes(0, "error")
    tape.hangs("pipe-1", "pipe-receive")
    found = pipe_convicted("K3", tape)
    assert found.kind == "hang"
    assert "pipe-1, which waited for it, was never told" in found.cause


def test_k3_of_an_exception_in_a_thread() -> None:
    struck = passed(0).gives(0, 1)
    struck.tell("pipe-0", "raised", how="injected", where="x.py:1 in run")
    assert "x.py:1 in run" in pipe_convicted("K3", struck.misses(1, "closed").closes(0)).cause
    harmless = passed(0)
    harmless.tell("pipe-0", "raised", how="injected", where="x.py:1 in run")
    assert pipe_judged("K3", harmless.closes(0)).violations == []
    with pytest.raises(Inconclusive):
        pipe_judged("K3", passed(0))


def survived(*, after: float = 0.001, outcome: str = "peer-died") -> PipeTape:
    tape = passed(0).dies(0).asks(1)
    tape.later(after * 1000)
    return tape.misses(1, outcome, asked=True)


def test_k4_wants_an_error_in_two_seconds() -> None:
    assert pipe_judged("K4", survived()).counts == {"deaths": 1}
    assert pipe_convicted("K4", survived(after=2.5)).kind == "late"
    assert pipe_judged("K4", survived(after=2.5), device="cuda").violations == []
    slow = PipeTape()
    slow.events, slow.now = survived(after=2.5).events, survived(after=2.5).now
    slow.late(400)
    assert pipe_judged("K4", slow).violations == []


def test_k4_wants_somebody_to_say_it() -> None:
    tape = passed(0).dies(1).gives(0, 1).gives(0, 2).closes(0)
    assert pipe_convicted("K4", tape).kind == "no-error"
    tape = passed(0).dies(1).gives(0, 1).gives(0, 2).closes(0, "failed")
    assert pipe_judged("K4", tape).violations == []


def test_k4_wants_the_close_to_return() -> None:
    assert pipe_convicted("K4", survived().closes(1, after=6.0)).kind == "late"
    hung = survived()
    hung.tell("pipe-1", "pipe-close", timeout=None)
    hung.hangs("pipe-1", "pipe-close")
    assert pipe_convicted("K4", hung).kind == "hang"


def test_k4_lets_come_what_was_sent_whole_and_nothing_else() -> None:
    tape = passed(0).gives(0, 1).dies(0).gets(1, 1).misses(1, "peer-died")
    assert pipe_judged("K4", tape).violations == []
    tape = passed(0).gives(0, 1).dies(0).gets(1, 1, "torn").misses(1, "peer-died")
    assert pipe_convicted("K4", tape).kind == "wrong-data"


def test_k4_says_nothing_where_nobody_was_killed_or_nobody_was_left_to_tell() -> None:
    with pytest.raises(Inconclusive, match="nobody was killed"):
        pipe_judged("K4", passed(0))
    with pytest.raises(Inconclusive, match="no survivor"):
        pipe_judged("K4", passed(0).dies(0))


def test_k4_holds_the_making_to_its_deadline() -> None:
    tape = PipeTape()
    tape.tell("pipe-0", "begin", op="pipe-open", timeout=1.0)
    tape.dies(1).later(3500)
    tape.tell("pipe-0", "end", op="pipe-open", outcome="timeout")
    assert pipe_convicted("K4", tape).kind == "late"


@pytest.mark.parametrize(
    ("tape", "kind"),
    [
        (passed(0).lies(0, "mismatch").gets(1, 9), "wrong-data"),
        (passed(0).lies(0, "huge").misses(1, "error", grew=4 << 30), "growth"),
        (passed(0).lies(0, "huge").asks(1).hangs("pipe-1", "pipe-receive"), "hang"),
        (passed(0).lies(0, "dtype").gives(0, 1).gets(1, 1), "no-error"),
    ],
)
def test_k6_names_what_a_lie_led_to(tape: PipeTape, kind: Kind) -> None:
    assert pipe_convicted("K6", tape).kind == kind


def test_k6_holds_where_the_lie_was_refused() -> None:
    tape = passed(0).lies(0, "huge").gives(0, 1).misses(1, "refused").gets(1, 1)
    assert pipe_judged("K6", tape).counts == {"lies": 1}
    assert pipe_judged("K6", tape).violations == []
    with pytest.raises(Inconclusive, match="nobody lied"):
        pipe_judged("K6", passed(0))
