"""Q15 and the starved handshakes of Q10 on tapes."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive
from killpoint.scenario import Fault, Make

_SHM: dict[str, Any] = {"shm_bytes": 1 << 20}


def test_a_refusal_at_construction_is_what_is_asked() -> None:
    found = judged("Q15", Tape().ordered("writer", "make", "error"), **_SHM)
    assert found.violations == []
    assert found.counts == {"queues": 1, "refused": 1}


def test_a_death_by_sigbus_is_a_crash() -> None:
    tape = Tape().ordered("writer", "make").sends(0).exits("writer", number=7)
    found = convicted("Q15", tape, **_SHM)
    assert found.kind == "crash"
    assert "signal 7" in found.cause


def test_an_error_under_load_came_too_late() -> None:
    tape = Tape().ordered("writer", "make").sent(0, "error")
    assert convicted("Q15", tape, **_SHM).kind == "no-error"


def test_a_queue_that_was_made_loses_nothing() -> None:
    tape = Tape().ordered("writer", "make").sent(0).sent(1).gets(0)
    assert convicted("Q15", tape, **_SHM).kind == "lost"
    assert judged("Q15", tape.gets(1), **_SHM).violations == []


def test_after_a_refusal_a_queue_that_fits_works() -> None:
    refused = Tape().ordered("writer", "make", "error")
    good = refused.ordered("writer", "make").sent(0).gets(0)
    assert judged("Q15", good, restart=True, **_SHM).violations == []
    again = Tape().ordered("writer", "make", "error").ordered("writer", "make", "error")
    assert convicted("Q15", again, restart=True, **_SHM).kind == "no-error"


def test_the_machines_own_dev_shm_proves_nothing() -> None:
    with pytest.raises(Inconclusive):
        judged("Q15", Tape().ordered("writer", "make", "error"))


_STARVES = Fault("starve", "reader-0")


def _starved(op: str = "attach", outcome: str = "error") -> Tape:
    tape = Tape().ordered("writer", "make").tell("reader-0", "starved", spare=0, limit=9)
    tape.tell("reader-0", "begin", op=op)
    return tape.tell("reader-0", "end", op=op, outcome=outcome, error="too many open files")


def test_a_starved_call_that_errs_is_held_and_counted() -> None:
    found = judged("Q10", _starved(), Make(), _STARVES)
    assert found.violations == []
    assert found.counts == {"starved": 1, "starved calls that failed": 1}


def test_a_starved_call_that_never_ends_is_a_hang() -> None:
    assert convicted("Q10", _starved().hangs("reader-0", "ready"), Make(), _STARVES).kind == "hang"


def test_a_starved_party_does_not_report_a_death_that_never_was() -> None:
    found = convicted("Q10", _starved(outcome="peer-died"), Make(), _STARVES)
    assert found.kind == "no-error"
    assert "nobody had died" in found.cause


def test_a_starved_party_harms_no_other() -> None:
    tape = _starved().ordered("reader-1", "attach", "error")
    found = convicted("Q10", tape, Make(), _STARVES, readers=2)
    assert "reader-1 could not attach because reader-0" in found.cause


def test_a_fault_that_was_not_seen_to_strike_is_no_evidence() -> None:
    with pytest.raises(Inconclusive, match="starved"):
        judged("Q10", Tape().ordered("writer", "make"), Make(), _STARVES)
