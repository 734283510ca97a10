"""Shares of the cases: each case in exactly one, whatever was measured, and all about as long."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from killpoint.cases import CASES, select
from killpoint.durations import SHIPPED, Expected, expected, read, store
from killpoint.errors import BadUsage
from killpoint.judgement.judge import plan
from killpoint.judgement.shards import shard
from killpoint.verdict import CaseOutcome

_SOME = CASES[:23]
_MEASURED = st.fixed_dictionaries({case.id: st.floats(0, 500) for case in _SOME})


@settings(max_examples=50)
@given(_MEASURED, st.integers(1, 30))
def test_every_case_is_in_exactly_one_part(seconds: dict[str, float], parts: int) -> None:
    known = {id: Expected(s, s) for id, s in seconds.items()}
    shares = [shard(_SOME, known, part, parts) for part in range(1, parts + 1)]
    ids = [case.id for share in shares for case in share]
    assert sorted(ids) == sorted(case.id for case in _SOME)


@settings(max_examples=50)
@given(_MEASURED, st.integers(1, 8))
def test_no_part_is_longer_than_a_fair_share_and_the_longest_case(
    seconds: dict[str, float], parts: int
) -> None:
    known = {id: Expected(s, s) for id, s in seconds.items()}
    for part in range(1, parts + 1):
        took = sum(known[case.id].cost for case in shard(_SOME, known, part, parts))
        assert took <= sum(seconds.values()) / parts + max(seconds.values()) + 1e-6


def test_the_longest_case_has_a_part_of_its_own_if_it_is_as_long_as_all_others() -> None:
    known = {case.id: Expected(1.0, 1.0) for case in _SOME}
    known[_SOME[7].id] = Expected(22.0, 22.0)
    shares = [shard(_SOME, known, part, 2) for part in (1, 2)]
    assert [_SOME[7]] in shares


def test_the_parts_of_the_whole_catalogue_are_about_as_long_as_each_other() -> None:
    known = expected(CASES)
    costs = [sum(known[c.id].cost for c in plan(shard=(part, 4))) for part in range(1, 5)]
    assert max(costs) < 1.1 * min(costs)


def test_only_some_invariants_are_shared_out_whole_too() -> None:
    parts = [plan(["R3", "Q6"], shard=(part, 3)) for part in (1, 2, 3)]
    assert sorted(c.id for p in parts for c in p) == sorted(c.id for c in select(["R3", "Q6"]))


def test_a_case_nobody_measured_is_expected_to_take_the_median(tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    first, second, third, new = [case for case in CASES if case.tier == "process"][:4]
    store(file, [_took(first.id, 1.0), _took(second.id, 30.0), _took(third.id, 2.0)])
    assert expected([new], file) == {new.id: Expected(2.0, 0.5)}


def test_what_is_stored_joins_what_was_there_but_for_cases_that_are_no_more(tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    file.write_text('{"R3/no-such-case": 5.0, "R3/stream": 9.0}')
    store(file, [_took("Q6/published-before-death", 1.234), _took("L1/every-play", 1.0)])
    assert read(file) == {"Q6/published-before-death": 1.23, "R3/stream": 9.0}


def test_a_case_that_was_not_asked_of_the_target_took_no_time_worth_noting(tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    store(file, [CaseOutcome("R3/stream", "R3", "unsupported", seconds=0.001)])
    assert read(file) == {}


def test_a_file_of_something_else_is_told_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "durations.json"
    file.write_text('{"R3/stream": "long"}')
    with pytest.raises(BadUsage, match=r"durations.json: .*expected seconds by case"):
        read(file)


def test_nearly_all_cases_have_been_measured() -> None:
    known = read(SHIPPED)
    assert len(known) > 0.9 * len(CASES)


def _took(case: str, seconds: float) -> CaseOutcome:
    return CaseOutcome(case, case.split("/")[0], "held", seconds=seconds)
