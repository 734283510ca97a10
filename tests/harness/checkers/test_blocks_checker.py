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
