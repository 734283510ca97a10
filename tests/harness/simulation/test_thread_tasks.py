from __future__ import annotations

import threading
from collections import Counter

import pytest

from killpoint.errors import CannotWork
from killpoint.interfaces import Chooser
from killpoint.search.schedules.preemptions import Preemptions
from killpoint.search.schedules.replay import FixedSchedule
from killpoint.simulation import thread_tasks
from killpoint.simulation.lines import Lines
from killpoint.simulation.scheduler import Scheduler


class Account:
    """What two tasks change without asking."""

    def __init__(self) -> None:
        self.balance = 0

    def pay(self) -> None:
        """Read, then write: a line each."""
        before = self.balance
        self.balance = before + 1


def _two(chooser: Chooser, *, threads: bool) -> str:
    """Two tasks with three points each; the order in which they passed them."""
    world = Scheduler(chooser, threads=threads)
    order: list[str] = []

    def run(name: str) -> None:
        for _ in range(3):
            world.point()
            order.append(name)

    for name in "ab":
        world.task(name, lambda name=name: run(name))
    assert world.run().how == "done"
    return "".join(order)


def test_threads_and_greenlets_run_the_same_schedules() -> None:
    found = [Counter(_two(c, threads=t) for c in Preemptions(2)) for t in (False, True)]
    assert found[0] == found[1]
    assert len(found[0]) > 10


def test_threads_are_used_again_in_the_next_run() -> None:
    _two(FixedSchedule([]), threads=True)
    before = threading.active_count()
    for _ in range(5):
        _two(FixedSchedule([0, 1]), threads=True)
    assert threading.active_count() <= before + 1


def test_a_schedule_of_threads_replays() -> None:
    orders = {_two(FixedSchedule([0, 1, 0, 1]), threads=True) for _ in range(5)}
    assert len(orders) == 1


def test_a_broken_off_task_is_unwound_on_its_own_thread() -> None:
    world = Scheduler(FixedSchedule([]), threads=True)
    left: list[bool] = []

    def stuck() -> None:
        try:
            world.wait(lambda: False, None, "nothing")
        finally:
            left.append(threading.current_thread() is not threading.main_thread())

    world.task("stuck", stuck)
    assert world.run().how == "deadlock"
    assert left == [True]


def test_an_error_of_a_task_comes_out() -> None:
    world = Scheduler(FixedSchedule([]), threads=True)

    def fail() -> None:
        raise LookupError("mine")

    world.task("one", fail)
    with pytest.raises(LookupError, match="mine"):
        world.run()


def test_a_task_that_blocks_outside_of_the_world_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_tasks, "PATIENCE", 0.05)
    world = Scheduler(FixedSchedule([]), threads=True)
    gate = threading.Event()
    world.task("one", gate.wait)
    with pytest.raises(CannotWork, match="has not come to a point"):
        world.run()
    gate.set()


@pytest.mark.parametrize("traced", [False, True])
def test_a_race_on_an_attribute_shows_at_lines_only(traced: bool) -> None:
    balances: set[int] = set()
    for chooser in Preemptions(1):
        world = Scheduler(chooser, threads=True)
        account = Account()
        lines = Lines(world, lambda code: code is Account.pay.__code__)
        for name in "ab":
            world.task(name, lines.traced(account.pay) if traced else account.pay)
        world.run()
        assert lines.count == (4 if traced else 0)
        balances.add(account.balance)
    assert balances == ({1, 2} if traced else {2})
