"""The kill matrix: every cell is decided, means something, and is somebody's to judge."""

from __future__ import annotations

from typing import get_args

import pytest

from killpoint.invariants import BY_ID
from killpoint.systems.pool.kill_matrix import (
    HARMS,
    JUDGED_BY,
    MATRIX,
    MEANING,
    PHASES,
    VICTIMS,
    Cell,
    Ending,
    cells,
)


def test_every_cell_is_decided_and_there_are_no_others() -> None:
    whole = {Cell(v, p, h) for v in VICTIMS for p in PHASES for h in HARMS}
    assert set(MATRIX) == whole
    assert len(MATRIX) == 2 * 13 * 6


def test_every_ending_has_a_meaning_and_a_cell_and_an_invariant() -> None:
    assert set(MEANING) == set(get_args(Ending))
    assert {expected.ending for expected in MATRIX.values()} == set(MEANING)
    assert set(MEANING) - set(JUDGED_BY) == {"not-applicable"}
    assert set(JUDGED_BY.values()) <= set(BY_ID)


def test_what_is_not_applicable_or_left_to_the_target_says_why() -> None:
    for cell, expected in MATRIX.items():
        if expected.ending in ("not-applicable", "fails-or-serves", "call-or-pool-fails"):
            assert expected.why, cell.name()


@pytest.mark.parametrize("harm", ["kill", "exit", "sigterm"])
def test_a_death_is_told_in_every_phase_and_never_borne(harm: str) -> None:
    for cell, expected in MATRIX.items():
        if cell.harm == harm and cell.victim == "worker":
            assert expected.ending in (
                "start-fails",
                "start-or-pool-fails",
                "pool-fails",
                "stops-in-time",
            )
        elif cell.harm == harm:
            assert expected.ending == "workers-gone"


def test_cells_are_found_by_their_ending() -> None:
    found = cells("workers-gone")
    assert {cell.victim for cell in found} == {"executor"}
    assert {cell.phase for cell in found} == set(PHASES)
    assert cells("pool-fails", victim="executor") == []
