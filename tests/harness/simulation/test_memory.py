"""Memory models by their litmus tests: what each allows, and that fences forbid it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from killpoint.interfaces import Chooser
from killpoint.search.schedules.preemptions import Preemptions
from killpoint.simulation.memory import MODELS
from killpoint.simulation.memory.model import Model
from killpoint.simulation.scheduler import Scheduler

X, Y = 0, 64
Task = Callable[[Model], int]


def _outcomes(model: str, *tasks: Task) -> set[tuple[int, ...]]:
    """What the tasks can have seen, over every schedule with at most three preemptions."""
    seen: set[tuple[int, ...]] = set()
    search = Preemptions(3)
    for chooser in search:
        seen.add(_run(model, chooser, *tasks))
    assert search.exhausted
    return seen


def _run(model: str, chooser: Chooser, *tasks: Task) -> tuple[int, ...]:
    world = Scheduler(chooser)
    memory = MODELS[model](world)
    got = [0] * len(tasks)

    def task(index: int) -> Callable[[], None]:
        def run() -> None:
            got[index] = tasks[index](memory)

        return run

    for index in range(len(tasks)):
        world.task(str(index), task(index))
    assert world.run().how == "done"
    return tuple(got)


def _stores_then_loads(mine: int, other: int, fence: bool) -> Task:
    def run(memory: Model) -> int:
        memory.store(mine, b"\1")
        if fence:
            memory.fence()
        return memory.load(other, 1)[0]

    return run


def _sends(fence: bool) -> Task:
    def run(memory: Model) -> int:
        memory.store(X, b"\7")
        if fence:
            memory.fence()
        memory.store(Y, b"\1")
        return 0

    return run


def _receives(fence: bool) -> Task:
    """What it saw of the data once it had seen the flag; 9: it did not see the flag."""

    def run(memory: Model) -> int:
        if memory.load(Y, 1) == b"\0":
            return 9
        if fence:
            memory.fence()
        return memory.load(X, 1)[0]

    return run


@pytest.mark.parametrize(
    ("model", "weak"), [("sequential", False), ("tso", True), ("relaxed", True), ("view", True)]
)
def test_store_buffering(model: str, weak: bool) -> None:
    bare = _outcomes(model, _stores_then_loads(X, Y, False), _stores_then_loads(Y, X, False))
    assert ((0, 0) in bare) == weak
    assert {(0, 1), (1, 0), (1, 1)} <= bare


@pytest.mark.parametrize("model", MODELS)
def test_dekker_excludes_with_a_fence_on_each_side(model: str) -> None:
    fenced = _outcomes(model, _stores_then_loads(X, Y, True), _stores_then_loads(Y, X, True))
    assert (0, 0) not in fenced


@pytest.mark.parametrize(
    ("model", "weak"), [("sequential", False), ("tso", False), ("relaxed", True), ("view", True)]
)
def test_message_passing(model: str, weak: bool) -> None:
    assert ((0, 0) in _outcomes(model, _sends(False), _receives(False))) == weak
    assert {(0, 7), (0, 9)} <= _outcomes(model, _sends(False), _receives(False))


@pytest.mark.parametrize("model", MODELS)
def test_message_passing_with_both_fences_is_sound(model: str) -> None:
    assert (0, 0) not in _outcomes(model, _sends(True), _receives(True))


def test_stale_loads_need_the_readers_fence_too_and_store_order_only_the_writers() -> None:
    assert (0, 0) in _outcomes("view", _sends(True), _receives(False))
    assert (0, 0) in _outcomes("view", _sends(False), _receives(True))
    assert (0, 0) not in _outcomes("relaxed", _sends(True), _receives(False))


@pytest.mark.parametrize("model", MODELS)
def test_a_place_never_goes_back(model: str) -> None:
    def writes(memory: Model) -> int:
        memory.store(X, b"\1")
        memory.store(X, b"\2")
        return 0

    def looks(memory: Model) -> int:
        first, second = memory.load(X, 1)[0], memory.load(X, 1)[0]
        return first * 10 + second

    seen = {got for _, got in _outcomes(model, writes, looks)}
    assert seen == {0, 1, 2, 11, 12, 22}


@pytest.mark.parametrize("model", MODELS)
def test_a_task_sees_its_own_stores(model: str) -> None:
    def writes(memory: Model) -> int:
        memory.store(X, b"\1\2\3")
        memory.store(X + 1, b"\7")
        return int.from_bytes(memory.load(X, 3), "big")

    assert _outcomes(model, writes) == {(0x010703,)}


@pytest.mark.parametrize("model", MODELS)
def test_outside_of_tasks_everything_is_immediate(model: str) -> None:
    memory = MODELS[model](Scheduler(_never()))
    memory.store(X, b"abc")
    memory.fence()
    assert memory.load(X, 3) == b"abc"


def _never() -> Chooser:
    class Never:
        def choose(self, options: object) -> int:
            raise AssertionError(options)

    return Never()
