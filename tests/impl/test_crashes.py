"""A short torture on every run; `impl.crashes` plays as many seeds as asked."""

import pytest

from .crashes import play


@pytest.mark.parametrize("seed", range(10_000, 10_016))
def test_survivors_of_a_kill_at_a_random_line_see_the_truth(seed: int):
    play(seed)
