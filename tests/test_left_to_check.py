"""What ``pytest`` leaves to ``ci/check.sh``: it is named as the cases are, and never all of one."""

from __future__ import annotations

from pathlib import Path

from killpoint.cases import CASES

LEFT = {
    line
    for line in Path(__file__).with_name("left_to_check.txt").read_text().splitlines()
    if not line.startswith("#")
}


def test_each_is_a_case() -> None:
    assert LEFT - {case.id for case in CASES} == set()


def test_of_each_invariant_one_is_played_all_the_same() -> None:
    played = {case.id.partition("/")[0] for case in CASES if case.id not in LEFT}
    assert {id.partition("/")[0] for id in LEFT} - played == set()
