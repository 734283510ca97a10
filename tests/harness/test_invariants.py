"""The catalogue: every clause can be looked up, reached, and is tested by cases."""

from __future__ import annotations

from typing import get_args

import pytest

from killpoint.cases import EVERY_CASE
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID, CATALOGUE, invariant
from killpoint.targets.protocol import Capability


def test_ids_are_unique_and_found() -> None:
    assert len(BY_ID) == len(CATALOGUE)
    for item in CATALOGUE:
        assert invariant(item.id) is item


def test_an_unknown_id_is_bad_usage_and_says_what_there_is() -> None:
    with pytest.raises(BadUsage, match=r"unknown invariant 'Z9'; expected one of: R1, R2"):
        invariant("Z9")


@pytest.mark.parametrize("item", CATALOGUE, ids=lambda item: item.id)
def test_needs_are_capabilities_and_the_minimum_asks_for_something(item: object) -> None:
    found = next(each for each in CATALOGUE if each is item)
    assert set(found.needs) <= set(get_args(Capability))
    stacks = ("queue", "group", "pool", "pipe", "waves", "coordinator", "engine", "server")
    assert found.needs[0] in (*stacks, "coordinator_process")
    assert found.minimum
    assert all(least > 0 for least in found.minimum.values())


@pytest.mark.parametrize("item", CATALOGUE, ids=lambda item: item.id)
def test_there_are_cases_enough_for_the_minimum(item: object) -> None:
    found = next(each for each in CATALOGUE if each is item)
    assert sum(case.invariant == found.id for case in EVERY_CASE) >= found.minimum.get("cases", 0)
