"""The judge of KV blocks on histories told by hand."""

from __future__ import annotations

import pytest
from pipe_tape import PipeTape, pipe_convicted, pipe_judged

from killpoint.verdict import Kind


def lent() -> PipeTape:
    return PipeTape().lends("a", "x", "y")


def test_blocks_that_were_sent_are_served() -> None:
    found = pipe_judged("K8", lent().serves("a", "x", "y").lent("a"))
    assert (found.violations, found.counts) == ([], {"transfers": 1})


@pytest.mark.parametrize(
    ("tape", "kind", "words"),
    [
        (lent().lends("b", "z").serves("b", "x", "y"), "wrong-data", "blocks of 'a' for 'b'"),
        (lent().serves("a", "x"), "wrong-data", "a part of the blocks"),
        (lent().serves("a", "y", "x"), "wrong-data", "in another order"),
        (lent().serves("a", "freed", "too"), "wrong-data", "nobody sent"),
        (lent().serves("a", "x", "y").serves("a", "x", "y"), "duplicate", "had before"),
        (
            PipeTape().lends("a", "x", lease=0.4).serves("a", "x", after=1.5),
            "late",
            "after its lease",
        ),
        (
            PipeTape().lends("a", "x", lease=0.4, outcome="timeout", after=2.0),
            "late",
            "after its lease",
        ),
        (lent().denies("a", after=2.0).lent("a", "error"), "lost", "not served"),
        (lent().lent("a").denies("a", after=0.3), "lost", "acknowledged, and not served"),
        (lent().hangs("pipe-0", "blocks-send"), "hang", "pipe-0 still waited"),
    ],
)
def test_what_was_served_wrongly_is_named(tape: PipeTape, kind: Kind, words: str) -> None:
    found = pipe_convicted("K8", tape)
    assert found.kind == kind
    assert words in found.cause


def test_a_transfer_that_ended_with_its_lease_is_nobodys_fault() -> None:
    tape = PipeTape().lends("a", "x", lease=0.4, outcome="timeout", after=0.4).denies("a")
    assert pipe_judged("K8", tape).violations == []


def test_stale_blocks_are_told_from_those_that_were_sent_again() -> None:
    again = PipeTape().lends("a", "x", lease=0.4, outcome="timeout", after=0.4).lends("a", "y")
    assert pipe_judged("K8", again.serves("a", "y").lent("a")).violations == []
    stale = PipeTape().lends("a", "x", lease=0.4, outcome="timeout", after=0.4).lends("a", "y")
    assert pipe_convicted("K8", stale.later(600).serves("a", "x")).kind == "late"


def test_after_a_death_nothing_need_be_served() -> None:
    assert pipe_judged("K8", lent().dies(0).denies("a", "peer-died")).violations == []


def forged(tape: PipeTape, how: str = "swapped") -> PipeTape:
    tape.tell("pipe-0", "blocks-forge", how=how)
    return tape


def test_blocks_that_were_harmed_need_not_be_served() -> None:
    tape = forged(PipeTape()).lends("a", "x", "y").denies("a", "failed", after=2.0)
    found = pipe_judged("K8", tape.lent("a", "failed"))
    assert (found.violations, found.counts) == ([], {"transfers": 1, "forged": 1})


def test_blocks_that_were_harmed_are_not_served_as_they_came() -> None:
    tape = forged(PipeTape()).lends("a", "x", "y").serves("a", "y", "x")
    assert pipe_convicted("K8", tape).kind == "wrong-data"


def test_a_request_that_is_sent_again_is_served_once_the_earlier_blocks_came_to_nothing() -> None:
    tape = forged(PipeTape()).lends("a", "x", lease=0.5).denies("a", "failed", after=0.1)
    tape.lent("a", "failed").lends("a", "z").denies("a", "failed", after=2.0)
    found = pipe_convicted("K8", tape.lent("a", "failed"))
    assert "was sent (failed) and asked for in time" in found.cause


def test_a_request_may_be_told_once_of_earlier_blocks_that_came_to_nothing() -> None:
    tape = PipeTape().lends("a", "x", lease=0.5, outcome="failed", after=0.5)
    tape.lends("a", "z").denies("a", "failed", after=2.0)
    assert not pipe_judged("K8", tape.lent("a", "failed")).violations
