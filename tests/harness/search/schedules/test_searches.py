"""The searches: how many schedules each gives, which it finds, and that they replay."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import pytest

from killpoint.interfaces import Chooser, Search
from killpoint.search.schedules.delays import Delays
from killpoint.search.schedules.exploration import Counting, Found, explore
from killpoint.search.schedules.pct import PCT
from killpoint.search.schedules.preemptions import Preemptions
from killpoint.search.schedules.random_walk import RandomWalk
from killpoint.search.schedules.replay import FixedSchedule, Replay
from killpoint.search.schedules.shrink import shrink
from killpoint.simulation.scheduler import Scheduler
from killpoint.verdict import Violation

Run = tuple[Violation | None, list[int], int]


def _counting(points: int, tasks: int = 2) -> Callable[[Chooser], tuple[int, ...]]:
    """Tasks that each take so many points; the order in which they took them."""

    def run(chooser: Chooser) -> tuple[int, ...]:
        world = Scheduler(chooser)
        order: list[int] = []

        def task(index: int) -> Callable[[], None]:
            def steps() -> None:
                order.append(index)
                for _ in range(points):
                    world.point()
                    order.append(index)

            return steps

        for index in range(tasks):
            world.task(str(index), task(index))
        world.run()
        return tuple(order)

    return run


def _lost_update(chooser: Chooser) -> Run:
    """Two tasks add one, three times each, in two steps."""
    world, box = Scheduler(chooser), [0]

    def adds() -> None:
        for _ in range(3):
            world.point()
            value = box[0]
            world.point()
            box[0] = value + 1

    world.task("a", adds)
    world.task("b", adds)
    ending = world.run()
    wrong = None if box[0] == 6 else Violation("lost", f"{6 - box[0]} lost")
    return wrong, ending.choices, ending.steps


def _all(search: Search, run: Callable[[Chooser], tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [run(chooser) for chooser in search]


@pytest.mark.parametrize("points", [1, 2, 3])
def test_with_enough_preemptions_every_interleaving_is_run_exactly_once(points: int) -> None:
    runs = _all(Preemptions(20), _counting(points))
    assert len(runs) == len(set(runs)) == comb(2 * points + 2, points + 1)


def test_bounds_give_what_they_say() -> None:
    assert len(_all(Preemptions(0), _counting(4))) == 2
    assert len(_all(Preemptions(1), _counting(4))) == 2 + 2 * 4
    assert len(_all(Preemptions(2), _counting(4))) == 2 + 2 * 4 + 2 * 4 * 4
    assert len(_all(Delays(0), _counting(4))) == 1


@pytest.mark.parametrize("make", [Preemptions, Delays])
def test_the_first_bad_schedule_has_the_fewest_deviations(
    make: Callable[[int], Search],
) -> None:
    searched, found = explore(make(2), _lost_update, 10_000)
    assert found is not None
    counting = Counting(FixedSchedule(found.choices))
    _lost_update(counting)
    assert counting.preemptions == 1
    assert not searched.complete
    assert "violated by schedule" in str(searched)


def test_a_search_that_ran_out_is_complete_and_a_capped_one_is_told_as_capped() -> None:
    def good(chooser: Chooser) -> Run:
        return None, _lost_update(chooser)[1], 1

    whole, _ = explore(Preemptions(1), good, 10_000)
    assert whole.complete
    assert str(whole) == f"all {whole.schedules} schedules with ≤ 1 preemptions"
    exact, _ = explore(Preemptions(1), good, whole.schedules)
    assert exact.complete
    capped, _ = explore(Preemptions(1), good, whole.schedules - 1)
    assert not capped.complete
    assert str(capped).startswith("capped at")


@pytest.mark.parametrize("make", [lambda s: PCT(300, 2, s), lambda s: RandomWalk(300, seed=s)])
def test_random_searches_find_it_and_are_the_same_for_the_same_seed(
    make: Callable[[int], Search],
) -> None:
    first, found = explore(make(1), _lost_update, 300)
    again, same = explore(make(1), _lost_update, 300)
    assert found is not None
    assert (first.schedules, found) == (again.schedules, same)
    runs = _all(make(2), _counting(3))
    assert len(runs) == 300
    assert len(set(runs)) > 5


def test_a_bad_schedule_replays_each_time() -> None:
    _, found = explore(RandomWalk(300, seed=3), _lost_update, 300)
    assert found is not None
    for _ in range(20):
        assert _lost_update(FixedSchedule(found.choices))[:2] == (found.violation, found.choices)
    searched, again = explore(Replay(found.choices), _lost_update, 5)
    assert (searched.schedules, again) == (1, found)


def test_shrinking_leaves_the_fewest_deviations_and_nothing_behind_the_last() -> None:
    for seed in range(5):
        _, found = explore(RandomWalk(300, 0.9, seed), _lost_update, 300)
        assert found is not None
        small = shrink(_lost_update, found, 5.0)
        assert sum(choice != 0 for choice in small.choices) == 1
        assert small.choices[-1] != 0
        assert _lost_update(FixedSchedule(small.choices))[0] is not None


def test_what_does_not_replay_is_left_as_it_is() -> None:
    found = Found(Violation("lost", "once"), [0, 1, 0])

    def never(chooser: Chooser) -> Run:
        return None, _lost_update(chooser)[1], 1

    assert shrink(never, found, 1.0) is found
