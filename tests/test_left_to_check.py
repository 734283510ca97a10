"""Of each invariant ``pytest`` plays a case, whatever it leaves to ``ci/check.sh``."""

from __future__ import annotations

from left_to_check import LEFT_TO_CHECK

from killpoint.cases import CASES

_ABSENT = {"cuda", "native"}
"""What a case may need that the reference has nowhere, or not on every machine: it is a skip."""


def test_what_is_left_is_a_case() -> None:
    assert LEFT_TO_CHECK - {case.id for case in CASES} == set()


def test_of_each_invariant_another_is_played_and_no_skip() -> None:
    others = [case for case in CASES if case.id not in LEFT_TO_CHECK]
    played = {case.id.partition("/")[0] for case in others if not case.needs & _ABSENT}
    assert {id.partition("/")[0] for id in LEFT_TO_CHECK} - played == set()
