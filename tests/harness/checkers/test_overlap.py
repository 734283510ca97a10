"""How much of a history went on at once."""

from __future__ import annotations

from killpoint.checkers.overlap import overlap


def test_pairs_that_have_a_time_in_common_are_counted_once() -> None:
    spans = [(0, 10), (20, 30), (5, 25), (30, 40)]
    assert overlap(spans) == {"operations": 4, "overlapping pairs": 3}
    assert overlap([]) == {"operations": 0, "overlapping pairs": 0}
