"""A reduced search leaves nothing out: what can be seen is what all schedules show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from killpoint.interfaces import Chooser
from killpoint.search.schedules import states
from killpoint.search.schedules.bounded import Bounded
from killpoint.search.schedules.delays import Delays
from killpoint.search.schedules.preemptions import Preemptions
from killpoint.search.schedules.reduction import Reduction
from killpoint.simulation.memory import MODELS
from killpoint.simulation.memory.model import Model
from killpoint.simulation.scheduler import Scheduler

Act = tuple[Literal["load", "store", "fence", "await"], int, int]
Program = list[list[Act]]
_PLACES, _WIDTH = 3, 2
_ACTS = st.tuples(
    st.sampled_from(("load", "load", "store", "store", "fence", "await")),
    st.integers(0, _PLACES - 1),
    st.integers(1, 2),
)


@pytest.fixture(autouse=True)
def _often_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are small: one in five runs that meet a state shows whether it is one."""
    monkeypatch.setattr(states, "_FOLLOWED", 5)


def _programs(tasks: int, acts: int) -> st.SearchStrategy[Program]:
    return st.lists(st.lists(_ACTS, min_size=1, max_size=acts), min_size=tasks, max_size=tasks)


def _outcomes(program: Program, model: str, search: Bounded) -> tuple[set[object], int]:
    """All that the tasks can have seen, and the number of runs, of those cut short, too."""
    seen: set[object] = set()
    runs = 0
    for chooser in search:
        runs += 1
        how, got = _run(program, model, chooser)
        if how != "met":
            seen.add((how, *map(tuple, got)))
    assert search.exhausted
    return seen, runs


def _run(program: Program, model: str, chooser: Chooser) -> tuple[str, list[list[int]]]:
    world = Scheduler(chooser)
    memory: Model = MODELS[model](world)
    memory.reserve(_PLACES * _WIDTH)
    world.shared = memory.state
    got: list[list[int]] = [[] for _ in program]

    def task(acts: list[Act], mine: list[int]) -> Callable[[], None]:
        def run() -> None:
            for what, place, value in acts:
                at = place * _WIDTH
                if what == "store":
                    memory.store(at, bytes([value]))
                elif what == "load":
                    mine.append(memory.byte(at))
                elif what == "fence":
                    memory.fence()
                else:
                    while memory.byte(at) != value:
                        world.spin()

        return run

    for index, acts in enumerate(program):
        world.task(str(index), task(acts, got[index]))
    return world.run().how, got


def _same(program: Program, model: str, bound: int, *, by_turns: bool) -> None:
    for kind, least in ((Preemptions, 0), (Delays, 1)):
        every, runs = _outcomes(program, model, kind(bound))
        reduction = Reduction(by_turns=by_turns, least=least)
        reduced, fewer = _outcomes(program, model, kind(bound, reduction=reduction))
        assert reduced == every, kind
        assert fewer <= runs


@settings(max_examples=60)
@given(_programs(2, 5), st.integers(0, 3))
def test_two_tasks_on_plain_memory(program: Program, bound: int) -> None:
    _same(program, "sequential", bound, by_turns=True)


@settings(max_examples=25)
@given(_programs(3, 3), st.integers(0, 2))
def test_three_tasks_on_plain_memory(program: Program, bound: int) -> None:
    _same(program, "sequential", bound, by_turns=False)


@pytest.mark.parametrize("model", ["tso", "relaxed", "view"])
@settings(max_examples=60)
@given(program=_programs(2, 3), bound=st.integers(0, 2))
def test_memory_that_is_seen_late(model: str, program: Program, bound: int) -> None:
    _same(program, model, bound, by_turns=False)


def test_what_tasks_share_beside_the_memory_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "_FOLLOWED", 1)
    search = Preemptions(2, reduction=Reduction())
    with pytest.raises(states.NotReducible):
        list(map(_counts_in_secret, search))


def _counts_in_secret(chooser: Chooser) -> None:
    """Two tasks touch nothing in common but a list, which no memory model knows of."""
    world = Scheduler(chooser)
    memory = MODELS["sequential"](world)
    memory.reserve(2)
    world.shared = memory.state
    order: list[int] = []

    def task(index: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(3):
                memory.byte(index)
                order.append(index)
            for value in (b"\2", b"\3") if order[0] else (b"\4", b"\5"):
                memory.store(index, value)

        return run

    for index in range(2):
        world.task(str(index), task(index))
    world.run()
