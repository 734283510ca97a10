"""The judge of a pipe's harmed links, on histories told by hand."""

from __future__ import annotations

import pytest
from pipe_tape import PipeTape, pipe_convicted, pipe_judged

from killpoint.checkers.finding import Inconclusive
from killpoint.verdict import Kind


def harmed(fault: str, *, seqs: int = 1, sprung: float = 0.0) -> PipeTape:
    """Rank 0 sends, its links are harmed; ``sprung``: so many ms after the order."""
    tape = PipeTape()
    tape.tell("director", "fault", fault=fault, target="pipe-1", toward="role")
    at = tape.now + int(sprung * 1e6)
    tape.tell("director", "relay", fault=fault, target="pipe-1", sprung=at if sprung else 0)
    for seq in range(seqs):
        tape.gives(0, seq)
    return tape


def heals(tape: PipeTape) -> PipeTape:
    tape.tell("director", "fault", fault="heal", target="pipe-1")
    return tape


def told(tape: PipeTape) -> PipeTape:
    tape.later(100)
    return tape.misses(1, "peer-died").gives(0, 7, "peer-died")


def test_both_ends_of_a_link_that_was_reset_are_told() -> None:
    tape = told(harmed("reset")).keeps(0, 0).closes(0).closes(1)
    assert pipe_judged("K3", tape).counts == {"links harmed": 1}


def test_what_was_told_while_it_still_happened_counts() -> None:
    tape = harmed("reset", sprung=3).asks(1)
    tape.misses(1, "peer-died", asked=True).later(100)
    assert not pipe_judged("K3", tape.gives(0, 7, "peer-died")).violations


@pytest.mark.parametrize(
    ("tape", "kind", "words"),
    [
        (told(harmed("reset")).keeps(0, 8), "leak", "8 bytes stay in the buffer of pipe-0"),
        (
            harmed("reset").misses(1, "peer-died").later(100).gives(0, 7),
            "no-error",
            "pipe-0 was not told",
        ),
        (
            harmed("reset").later(100).misses(1, "timeout").gives(0, 7, "peer-died"),
            "no-error",
            "pipe-1 was not told",
        ),
        (harmed("reset").asks(1).hangs("pipe-1", "pipe-receive"), "hang", "pipe-1 still waited"),
        (told(harmed("reset")).closes(0, after=6.0), "late", "close came back"),
        (told(harmed("reset", seqs=2)).gets(1, 1), "lost", "was accepted, and never came"),
        (harmed("half-open").gets(1, 0, "half"), "wrong-data", "nothing that pipe-0 sent"),
        (heals(harmed("cut")).misses(1, "closed"), "lost", "never came after the cut"),
        (heals(harmed("cut")).misses(1, "refused"), "lost", "receive failed after the cut"),
        (
            heals(harmed("cut")).gets(1, 0).gives(0, 7, "error"),
            "lost",
            "failed after the cut",
        ),
    ],
)
def test_what_went_wrong_is_named(tape: PipeTape, kind: Kind, words: str) -> None:
    found = pipe_convicted("K3", tape)
    assert found.kind == kind
    assert words in found.cause


def test_a_call_that_outlasts_its_own_deadline_is_late() -> None:
    tape = harmed("cut")
    tape.tell("pipe-1", "pipe-receive", timeout=0.4).later(3000)
    tape.tell("pipe-1", "pipe-got", outcome="timeout", error="E", s=3.0)
    assert "with a timeout of 0.4 s" in pipe_convicted("K3", tape).cause


def test_who_waits_to_its_deadline_behind_a_silent_link_has_been_told_enough() -> None:
    tape = harmed("half-open")
    tape.later(100)
    assert not pipe_judged("K3", tape.misses(1, "timeout").closes(0).closes(1)).violations


def test_a_deadline_that_ran_out_before_the_heal_has_lost_nothing() -> None:
    tape = harmed("cut").misses(1, "timeout")
    assert not pipe_judged("K3", heals(tape).gets(1, 0).misses(1, "closed")).violations


def test_a_harm_after_which_nothing_was_done_shows_nothing() -> None:
    tape = PipeTape().gives(0, 0).gets(1, 0)
    tape.tell("director", "fault", fault="reset", target="pipe-1", toward="role")
    with pytest.raises(Inconclusive):
        pipe_judged("K3", tape)
