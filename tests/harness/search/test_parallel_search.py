"""A search that several processes share is the same search."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Generator
from typing import Any

import pytest

from killpoint.errors import CannotWork
from killpoint.interfaces import Chooser
from killpoint.search.parallel_search import SearchProcesses
from killpoint.search.schedules.delays import Delays
from killpoint.search.schedules.exploration import explore
from killpoint.search.schedules.preemptions import Preemptions
from killpoint.search.schedules.random_walk import RandomWalk
from killpoint.search.schedules.replay import FixedSchedule
from killpoint.search.simulated import Ask, search_of
from killpoint.simulation.scheduler import Scheduler
from killpoint.verdict import Violation

Run = tuple[Violation | None, list[int], int]


class Counter:
    """Two tasks that each add one some times, in two steps; wrong if fewer than that come out."""

    doubt = ""

    def __init__(self, times: int = 5, least: int = 0) -> None:
        self.times, self.least = times, least

    def __call__(self, chooser: Chooser) -> Run:
        world, box = Scheduler(chooser), [0]

        def adds() -> None:
            for _ in range(self.times):
                world.point()
                value = box[0]
                world.point()
                box[0] = value + 1

        world.task("a", adds)
        world.task("b", adds)
        ending = world.run()
        wrong = None if box[0] >= self.least else Violation("lost", f"{box[0]} are left")
        return wrong, ending.choices, ending.steps


@contextlib.contextmanager
def _processes(
    count: int, play: Callable[[Chooser], Run], seed: int = 0
) -> Generator[SearchProcesses]:
    def playing() -> Any:
        return contextlib.nullcontext(play)

    with contextlib.closing(
        SearchProcesses(count, playing, lambda ask, p: search_of(ask, seed, p))
    ) as processes:
        yield processes


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("way", ["preemptions", "delays"])
def test_every_schedule_is_run_exactly_once(way: Any, count: int) -> None:
    alone = explore({"preemptions": Preemptions, "delays": Delays}[way](3), Counter(), 10_000)[0]
    with _processes(count, Counter()) as processes:
        together, found = processes.explore(Ask(way, 3), 10_000)
    assert found is None
    assert alone.schedules > 500
    assert alone.complete
    told = (together.name, together.schedules, together.steps, together.complete)
    assert told == (alone.name, alone.schedules, alone.steps, True)


def test_a_cap_is_kept_and_told() -> None:
    with _processes(2, Counter()) as processes:
        searched, _ = processes.explore(Ask("preemptions", 3), 501)
    assert searched.schedules == 501
    assert str(searched) == "capped at 501 schedules with ≤ 3 preemptions"


def test_all_have_something_to_do() -> None:
    with _processes(2, Counter()) as processes:
        processes.explore(Ask("preemptions", 2), 10_000)
        shares = [worker.came.schedules for worker in processes._workers]
    assert min(shares) > 0.35 * sum(shares)


@pytest.mark.parametrize("way", ["pct", "random"])
def test_runs_by_chance_are_divided(way: Any) -> None:
    with _processes(2, Counter()) as processes:
        searched, _ = processes.explore(Ask(way, 3, 41), 41)
    assert (searched.schedules, searched.complete) == (41, True)


def test_walks_are_those_of_one_process() -> None:
    alone = [run.choose([1] * 9) for run in RandomWalk(40, seed=3)]
    parts = [[run.choose([1] * 9) for run in RandomWalk(40, seed=3, part=(i, 3))] for i in range(3)]
    assert [parts[i % 3][i // 3] for i in range(40)] == alone


def test_what_is_found_replays_and_is_the_same_for_the_same_seed() -> None:
    found: list[Any] = []
    for _ in range(2):
        with _processes(2, Counter(least=6), seed=7) as processes:
            searched, bad = processes.explore(Ask("preemptions", 3), 10_000)
        assert searched.violated
        assert bad is not None
        assert Counter(least=6)(FixedSchedule(bad.choices))[0] == bad.violation
        found.append((searched.schedules, bad))
    assert found[0] == found[1]


def test_one_search_follows_another() -> None:
    with _processes(2, Counter()) as processes:
        first, _ = processes.explore(Ask("preemptions", 1), 10_000)
        again, _ = processes.explore(Ask("preemptions", 1), 10_000)
    assert (first.schedules, first.complete) == (again.schedules, again.complete)


def test_a_process_that_ends_is_told() -> None:
    class Leaver(Counter):
        def __call__(self, _: Chooser) -> Run:
            os._exit(3)

    with (
        _processes(2, Leaver()) as processes,
        pytest.raises(CannotWork, match=r"\(pid \d+\) has ended"),
    ):
        processes.explore(Ask("preemptions", 1), 10)


def test_what_goes_wrong_in_one_is_raised() -> None:
    class Failing(Counter):
        def __call__(self, _: Chooser) -> Run:
            raise LookupError("mine")

    with (
        _processes(2, Failing()) as processes,
        pytest.raises(CannotWork, match="LookupError: mine"),
    ):
        processes.explore(Ask("preemptions", 1), 10)


def test_they_end_with_the_one_that_made_them() -> None:
    read, write = os.pipe()
    maker = os.fork()
    if maker == 0:
        with _processes(2, Counter()) as processes:
            os.write(write, " ".join(str(worker.pid) for worker in processes._workers).encode())
            signal.pause()
        os._exit(0)
    pids = [int(word) for word in os.read(read, 100).split()]
    watched = [os.pidfd_open(pid) for pid in pids]
    os.kill(maker, signal.SIGKILL)
    os.waitpid(maker, 0)
    for fd in watched:
        assert select.select([fd], [], [], 10.0)[0], "a process of the search outlives its maker"
        os.close(fd)
    os.close(read)
    os.close(write)
