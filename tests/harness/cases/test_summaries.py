"""Summaries of cases: each says by itself what is played, without its neighbours."""

from __future__ import annotations

import re
from collections import Counter

from killpoint.cases import CASES

_LEANS = re.compile(r"^(the same|and so)\b|\(s\)|^$")
"""On the line above it, or on a count that nobody made."""


def test_each_summary_stands_by_itself() -> None:
    assert [case.id for case in CASES if _LEANS.search(case.summary)] == []


def test_no_two_cases_of_an_invariant_have_the_same_summary() -> None:
    told = Counter((case.invariant, case.summary) for case in CASES)
    assert [each for each, times in told.items() if times > 1] == []
