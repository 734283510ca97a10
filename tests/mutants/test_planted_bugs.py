"""Planted bugs and mutants change the reference where they say, and a bug is after a real one."""

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


@pytest.mark.parametrize("name", BROKEN)
def test_it_is_made_where_it_says(name: str) -> None:
    edits = BROKEN[name].edits
    for file in {edit.file for edit in edits}:
        source = (_REFERENCE / file).read_text("utf-8")
        compile(mutate(source, [edit for edit in edits if edit.file == file]), file, "exec")


@_EVERY
def test_it_says_what_it_breaks_and_after_which_bug_it_is(bug: PlantedBug) -> None:
    assert bug.breaks
    assert set(bug.breaks) <= BY_ID.keys()
    assert bug.link.startswith("https://")
    assert bug.seen
    assert bug.fixed
