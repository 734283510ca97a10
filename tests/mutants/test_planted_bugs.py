"""Planted bugs: each changes the reference where it says, and is after a bug that was fixed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from mutant_table import MUTANTS
from mutated import BROKEN, mutate
from planted import PLANTED
from planted.bug import PlantedBug

from killpoint.invariants import BY_ID

_REFERENCE = Path(__file__).parents[2] / "impl" / "refengine"
_EVERY = pytest.mark.parametrize("bug", PLANTED, ids=[each.name for each in PLANTED])


def test_there_are_some_in_every_system_and_no_name_stands_for_two() -> None:
    assert len(BROKEN) == len(MUTANTS) + len(PLANTED)
    assert min(Counter(each.system for each in PLANTED).values()) >= 5


@_EVERY
def test_it_is_made_where_it_says(bug: PlantedBug) -> None:
    files = {edit.file for edit in bug.edits}
    for file in files:
        source = (_REFERENCE / file).read_text("utf-8")
        broken = mutate(source, [edit for edit in bug.edits if edit.file == file])
        compile(broken, file, "exec")
    assert bug.breaks
    assert set(bug.breaks) <= BY_ID.keys()
    assert bug.link.startswith("https://")
    assert bug.seen
    assert bug.fixed
