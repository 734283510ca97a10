"""Every invariant and case can be explained to a person."""

from __future__ import annotations

import pytest

from killpoint.case import Case
from killpoint.cases import CASES
from killpoint.errors import BadUsage
from killpoint.invariants import CATALOGUE
from killpoint.judgement.explain import explain


@pytest.mark.parametrize("item", CATALOGUE, ids=lambda item: item.id)
def test_an_invariant_is_explained_by_its_clause_needs_strength_and_cases(item: object) -> None:
    found = next(each for each in CATALOGUE if each is item)
    text = explain(found.id)
    assert text.startswith(f"{found.id} ({found.level})")
    assert " ".join(found.clause.split()) in " ".join(text.split())
    assert "minimum strength: " in text
    for case in CASES:
        assert (case.id in text) == (case.invariant == found.id)


def test_a_case_is_explained_with_the_clause_it_tests() -> None:
    text = explain("R3/stream")
    assert "600 messages" in text
    assert "tests R3 (MUST): " in text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_case_says_what_it_does(case: Case) -> None:
    assert case.summary
    assert explain(case.id).splitlines()[1] == f"  {case.summary}"


def test_why_a_bound_is_what_it_is_stands_by_the_invariant_and_its_cases() -> None:
    for id in ("Q8", "Q8/idle-reader-wakes"):
        words = " ".join(explain(id).split())
        assert "bound (SHOULD: what never comes breaks the MUST): 100 ms: two decode steps" in words
    assert "bound" not in explain("R2")


@pytest.mark.parametrize("id", ["R99", "r3", "R3/nothing", ""])
def test_what_there_is_not_is_bad_usage(id: str) -> None:
    with pytest.raises(BadUsage, match="expected a case's name or one of: R1"):
        explain(id)


def test_an_invariant_of_pools_shows_its_part_of_the_kill_matrix() -> None:
    text = explain("W3")
    assert "pool-fails: every pending and later call errs" in text
    assert "worker, computing: kill, sigterm, exit" in text
    assert "kill matrix" not in explain("W1").split("cases:")[1]
    assert "executor, idle: kill, sigterm, sigint, exit" in explain("W4")
