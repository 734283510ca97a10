"""The two ways to make less: a number is lowered, a sequence loses parts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import pytest
from synthetic import scene

from killpoint.scenario import Pause, Scenario
from killpoint.search.shrink.attempt import fewest, least, offer

T = TypeVar("T")


def _number(value: int) -> Scenario:
    return scene(*[Pause(1.0)] * value)


def _parts(parts: Sequence[int]) -> Scenario:
    return scene(*[Pause(float(part)) for part in parts])


def _play(
    offers: Generator[Scenario, bool, T], fails: Callable[[list[int]], bool]
) -> tuple[T, int]:
    """What a generator comes to if this is what fails; and how many it offered."""
    tried = 0
    try:
        candidate = next(offers)
        while True:
            tried += 1
            candidate = offers.send(fails([int(step.seconds) for step in candidate.steps]))
    except StopIteration as end:
        return end.value, tried


@pytest.mark.parametrize("smallest", [0, 1, 2, 37, 99, 100])
def test_a_number_is_lowered_to_the_smallest_that_fails(smallest: int) -> None:
    came, tried = _play(least(100, 0, _number), lambda parts: len(parts) >= smallest)
    assert came == smallest
    assert tried <= 9


def test_a_number_that_is_low_already_is_left_alone() -> None:
    assert _play(least(3, 3, _number), lambda _: True) == (3, 0)


def test_a_rough_search_stops_where_little_is_to_gain() -> None:
    came, rough = _play(least(1000, 0, _number, grain=8), lambda parts: len(parts) >= 501)
    _, exact = _play(least(1000, 0, _number), lambda parts: len(parts) >= 501)
    assert 501 <= came <= 501 * 9 // 8
    assert rough < exact


@pytest.mark.parametrize("needed", [{4}, {0, 9}, {2, 3, 7}, set(range(10)), set()])
def test_a_sequence_keeps_only_what_is_needed(needed: set[int]) -> None:
    came, _ = _play(fewest(range(10), _parts), lambda parts: needed <= set(parts))
    assert list(came) == sorted(needed)


def test_a_long_run_that_is_not_needed_goes_in_one_piece() -> None:
    _, tried = _play(fewest(range(64), _parts), lambda parts: 0 in parts)
    assert tried <= 13


def test_as_many_parts_as_are_to_be_kept_are_kept() -> None:
    came, _ = _play(fewest(range(5), _parts, keep=1), lambda _: True)
    assert len(came) == 1


def test_what_cannot_be_built_does_not_fail() -> None:
    assert _play(offer(None), lambda _: True) == (False, 0)
