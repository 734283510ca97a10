"""What is asked of every judge: it cannot be pleased with nothing, and it names a crash."""

from __future__ import annotations

import signal

import pytest
from synthetic import Tape, judged, scene

from killpoint.cases import CASES
from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Inconclusive
from killpoint.invariants import CATALOGUE
from killpoint.ledger import Ledger
from killpoint.scenario import Close, Receive, Send
from killpoint.verdict import Kind


def test_every_invariant_with_a_chance_to_hold_has_a_judge() -> None:
    explored = {case.invariant for case in CASES if case.tier in ("model", "simulated")}
    assert {item.id for item in CATALOGUE} - explored <= set(CHECKERS)


@pytest.mark.parametrize("id", CHECKERS)
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


@pytest.mark.parametrize("id", CHECKERS)
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


def test_a_crash_in_the_play_of_another_case_is_no_leak() -> None:
    tape = _lived().exits("writer").exits("reader-0", number=signal.SIGSEGV)
    finding = CHECKERS["L1"](scene(judges="R3"), tape.history(), Ledger())
    assert finding.violations == []
