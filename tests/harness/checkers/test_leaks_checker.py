"""The judge of leaks: what may remain, and after whose death (L1)."""

from __future__ import annotations

import pytest
from synthetic import Tape, convicted, judged

from killpoint.ledger import Ledger


def _ended() -> Tape:
    return Tape().exits("writer").exits("reader-0")


def test_nothing_left_is_held() -> None:
    finding = judged("L1", _ended(), ledger=Ledger())
    assert finding.violations == []
    assert finding.counts == {"plays": 1}


@pytest.mark.parametrize(
    ("left", "word"),
    [
        (Ledger(processes=["77 python"]), "1 process (python)"),
        (Ledger(segments=["psm_1"]), "1 shared-memory segment (psm_…)"),
        (Ledger(files=["a/b.sock"]), "1 temporary file (a/b.sock)"),
    ],
)
def test_anything_left_is_a_leak_by_what_it_is(left: Ledger, word: str) -> None:
    found = convicted("L1", _ended(), ledger=left)
    assert found.kind == "leak"
    assert word in found.cause
    assert "after a clean end of every party" in found.cause
    assert found.evidence[-1] == left.lines()[0]


def test_a_survivor_owes_the_removal_of_what_the_dead_left() -> None:
    left = Ledger(segments=["psm_1"])
    found = convicted("L1", Tape().kills("writer").exits("reader-0"), ledger=left)
    assert "after the death of writer by signal 9" in found.cause


def test_what_the_death_of_all_left_waits_for_the_next_start_and_no_longer() -> None:
    left = Ledger(segments=["psm_1"], all_killed=True)
    tape = Tape().kills("writer").kills("reader-0")
    assert judged("L1", tape, ledger=left).violations == []
    assert convicted("L1", tape, ledger=left, restart=True).kind == "leak"
