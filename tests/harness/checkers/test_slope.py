"""A slope's interval holds what made the points, and is not moved by a step or a few strays."""

from __future__ import annotations

import random

import pytest

from killpoint.checkers.slope import slope

_X = [1000 * n for n in range(40)]


def test_points_on_a_line_leave_no_doubt() -> None:
    found = slope(_X, [7 + 3 * x for x in _X])
    assert (found.low, found.at, found.high) == (3, 3, 3)


@pytest.mark.parametrize("each", [1, 4, 8, 64])
def test_pages_barely_widen_the_interval(each: int) -> None:
    found = slope(_X, [each * x // 4096 * 4096 for x in _X])
    assert found.high - found.low < 0.5
    assert abs(found.at - each) < 0.15


def test_the_interval_holds_the_truth_ninety_nine_times_in_a_hundred() -> None:
    noise = random.Random(1)
    held = 0
    for _ in range(300):
        found = slope(_X, [5 * x + noise.gauss(0, 20_000) for x in _X])
        held += found.low <= 5 <= found.high
    assert held >= 292


def test_one_step_and_a_few_strays_do_not_move_the_median() -> None:
    step = [0 if x < 20_000 else 1 << 20 for x in _X]
    assert slope(_X, step).low == 0
    strays = [1 << 24 if n % 10 == 5 else 0 for n in range(40)]
    assert slope(_X, strays).at == 0


@pytest.mark.parametrize(("x", "y"), [(range(9), range(9)), ([1] * 12, range(12))])
def test_too_little_has_no_slope(x: list[int], y: list[int]) -> None:
    with pytest.raises(ValueError, match="expected 10 points"):
        slope(x, y)
