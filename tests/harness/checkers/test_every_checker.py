"""What is asked of every judge: it cannot be pleased with nothing, and it names a crash."""

from __future__ import annotations

import signal

import pytest
from synthetic import Tape, bug, judged

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Inconclusive
from killpoint.invariants import CATALOGUE
from killpoint.scenario import Close, Receive, Send
from killpoint.verdict import Kind

_PLEASED = {
    "R8": "creator_unlinks calls a play without any segment held (checkers/ring.py:65)",
    "Q8": "woken calls a play without any wake-up held (checkers/queue_time.py:81)",
    "Q11": "endings_end is doubtful only where a Drop or Exit was asked (queue_life.py:81)",
    "L1": "nothing_left calls a play in which nobody was seen to end held (checkers/leaks.py:14)",
}
_BLIND = {
    id: f"the judge of {id} does not look at crashes"
    for id in ("R4", "R6", "Q2", "Q3", "Q8", "Q9", "Q10", "Q11", "Q16")
}


def _each(known: dict[str, str]) -> list[object]:
    return [
        pytest.param(id, marks=bug(known[id])) if id in known else id
        for id in CHECKERS
        if known is _PLEASED or id not in ("L1", "R1")
    ]


def test_every_invariant_with_a_chance_to_hold_has_a_judge() -> None:
    waiting = {item.id for item in CATALOGUE if item.awaits}
    assert {item.id for item in CATALOGUE} - waiting <= set(CHECKERS)


@pytest.mark.parametrize("id", _each(_PLEASED))
def test_an_empty_history_is_inconclusive(id: str) -> None:
    with pytest.raises(Inconclusive):
        judged(id, Tape(), Send([]), Receive(1), Close())


def _lived() -> Tape:
    """A life in which every judge finds something to weigh, up to a reader's crash at its end."""
    tape = Tape()
    tape.ordered("writer", "make").ordered("reader-0", "attach").ordered("writer", "ready")
    tape.waits().sent(0).mutated(0).gets(0).fails("timeout", after=0.3, timeout=0.3)
    tape.tell("reader-0", "recheck", seq=0, same=True)
    return tape.ordered("writer", "close")


@pytest.mark.parametrize("id", _each(_BLIND))
def test_a_party_that_dies_of_a_signal_nobody_sent_is_a_crash(id: str) -> None:
    tape = _lived().exits("writer").exits("reader-0", number=signal.SIGSEGV)
    if id == "Q6":
        tape = _lived().kills("writer").fails("peer-died").exits("reader-0", number=signal.SIGSEGV)
    more = {"readers": 1}
    if id == "Q7":
        tape.kills("reader-1")
        more = {"readers": 2}
    found = judged(id, tape, Receive(1), Close(), **more).violations
    kinds: list[Kind] = [violation.kind for violation in found]
    assert kinds == ["crash"]
    assert "reader-0" in found[0].cause
    assert "signal 11" in found[0].cause
