"""Ratios and intervals, against what can be worked out by hand."""

from __future__ import annotations

import math
import random

import pytest

from killpoint.bench.statistics import enclosing, paired, quantile, summary


class TestQuantile:
    @pytest.mark.parametrize(
        ("samples", "share", "value"),
        [([3, 1, 2], 0.5, 2), ([4, 1, 3, 2], 0.5, 2.5), ([5], 0.99, 5), ([0, 10], 0.25, 2.5)],
    )
    def test_it_lies_between_neighbours(self, samples: list[float], share: float, value: float):
        assert quantile(samples, share) == value

    def test_a_summary_has_the_ends(self):
        found = summary([3.0, 9.0, 4.0])
        assert (found.median, found.least, found.most, found.samples) == (4, 3, 9, 3)


class TestInterval:
    @pytest.mark.parametrize(
        ("pairs", "rank", "coverage"),
        [(5, 1, 1 - 2 / 32), (6, 1, 1 - 2 / 64), (9, 2, 1 - 20 / 512), (12, 3, 1 - 158 / 4096)],
    )
    def test_order_statistics_are_those_of_the_tables(self, pairs: int, rank: int, coverage: float):
        assert enclosing(pairs) == (rank, pytest.approx(coverage))

    @pytest.mark.parametrize("pairs", [1, 2, 3, 4, 5])
    def test_few_pairs_give_their_ends_and_say_how_little_that_is(self, pairs: int):
        rank, coverage = enclosing(pairs)
        assert rank == 1
        assert coverage < 0.95

    def test_it_encloses_the_median_as_often_as_it_says(self):
        chance = random.Random(7)
        inside = 0
        for _ in range(2000):
            ratios = [chance.lognormvariate(math.log(2), 0.5) for _ in range(9)]
            found = paired(ratios, [1.0] * 9, more_is_better=True)
            inside += found.low <= 2 <= found.high
        assert 0.94 < inside / 2000 < 0.98


class TestPaired:
    def test_a_machine_that_slows_down_changes_no_ratio(self):
        target = [100.0, 50.0, 25.0, 12.0, 6.0, 3.0]
        found = paired(target, [one / 2 for one in target], more_is_better=True)
        assert (found.median, found.low, found.high, found.pairs) == (2, 2, 2, 6)

    def test_less_time_is_better(self):
        assert paired([2.0] * 6, [6.0] * 6, more_is_better=False).median == 3

    def test_one_lucky_pair_moves_neither_median_nor_the_interval_of_nine(self):
        found = paired([1.0] * 8 + [50.0], [1.0] * 9, more_is_better=True)
        assert (found.median, found.low, found.high) == (1, 1, 1)

    def test_the_least_of_six_is_the_lower_bound(self):
        found = paired([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0] * 6, more_is_better=True)
        assert (found.low, found.median, found.high) == (1, 3.5, 6)

    @pytest.mark.parametrize(("target", "peer"), [([], []), ([1.0], [1.0, 2.0])])
    def test_what_is_no_pair_is_refused(self, target: list[float], peer: list[float]):
        with pytest.raises(ValueError, match="are not pairs"):
            paired(target, peer, more_is_better=True)
