"""Generated programs of a pipe (H4): all can be played, and have what they are drawn for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from killpoint.scenario import (
    BlocksForge,
    BlocksReceive,
    BlocksSend,
    PipeMeet,
    PipeOpen,
    PipeSend,
    Scenario,
)
from killpoint.systems.pipe.generator import ids, programs, programs_with_harm
from killpoint.systems.pipe.generator_of_ends import programs_with_ends
from killpoint.systems.pipe.generator_of_tensors import programs_of_tensors
from killpoint.systems.pipe.validate import unplayable_pipe

_GENERATORS = (programs, programs_with_harm, programs_of_tensors, programs_with_ends)
Generator = Callable[[str, int], st.SearchStrategy[Scenario]]


def drawn(generator: Generator, look: Callable[[Scenario], None], count: int = 20) -> None:
    """Look at so many programs, the same ones each time."""
    quick = settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    quick(given(generator("H4/x", 3))(look))()


@pytest.mark.parametrize("generator", _GENERATORS)
def test_every_program_can_be_played(generator: Generator) -> None:
    def look(scenario: Scenario) -> None:
        assert list(unplayable_pipe(scenario)) == []
        assert scenario.judges == ["H4"]
        assert scenario.seed == 3

    drawn(generator, look)


def test_ids_of_a_round_are_alike_but_for_their_ends() -> None:
    for length in (0, 8, 36, 64, 255):
        made = ids(length)
        assert len(set(made)) == len(made)
        assert len({each[:length] for each in made}) == 1


def test_no_id_is_sent_twice_at_once_in_one_direction() -> None:
    used_again = Counter[bool]()

    def look(scenario: Scenario) -> None:
        under_way: set[tuple[str, str]] = set()
        before: set[tuple[str, str]] = set()
        for step in scenario.steps:
            if isinstance(step, BlocksSend):
                assert (step.role, step.request) not in under_way
                under_way.add((step.role, step.request))
            elif isinstance(step, PipeMeet):
                used_again[bool(before & under_way)] += 1
                before |= under_way
                under_way = set()

    drawn(programs, look)
    assert used_again[True] > used_again[False] / 2


def test_blocks_are_asked_for_before_without_time_late_and_never() -> None:
    found = Counter[str]()

    def look(scenario: Scenario) -> None:
        sent = {(s.role, s.request) for s in scenario.steps if isinstance(s, BlocksSend)}
        asks = [step for step in scenario.steps if isinstance(step, BlocksReceive)]
        found["before"] += sum(step.beside for step in asks)
        found["without time"] += sum(step.timeout == 0 for step in asks)
        found["with time"] += sum(bool(step.timeout) for step in asks)
        found["both ways"] += len({role for role, _ in sent}) == 2
        asked = {step.request for step in asks}
        found["never"] += sum(request not in asked for _, request in sent)

    drawn(programs, look)
    assert min(found.values()) >= 1, found


def test_some_blocks_are_harmed_and_their_ids_come_again() -> None:
    found = Counter[str]()

    def look(scenario: Scenario) -> None:
        harmed: set[tuple[str, str]] = set()
        for step, before in zip(scenario.steps[1:], scenario.steps, strict=False):
            if isinstance(step, BlocksSend):
                found["again"] += (step.role, step.request) in harmed
                if isinstance(before, BlocksForge):
                    assert before.role == step.role
                    assert sum(each.repeat for each in step.blocks) == 3
                    harmed.add((step.role, step.request))
                    found[before.how] += 1

    drawn(programs_with_harm, look)
    assert found.keys() == {"again", "swapped", "lost", "repeated", "mismatched"}
    assert min(found.values()) >= 3, found


def test_the_first_program_has_every_fate() -> None:
    def look(scenario: Scenario) -> None:
        asks = [step for step in scenario.steps if isinstance(step, BlocksReceive)]
        leases = {step.lease for step in scenario.steps if isinstance(step, BlocksSend)}
        assert len(leases) == 3
        assert {step.beside for step in asks} == {True, False}
        assert len({step.timeout for step in asks}) == 3

    drawn(programs, look, 1)


def test_ranks_come_to_a_ring_in_every_order() -> None:
    orders = Counter[tuple[str, ...]]()

    def look(scenario: Scenario) -> None:
        came = [step.roles[0] for step in scenario.steps if isinstance(step, PipeOpen)]
        assert scenario.pipe is not None
        assert sorted(came) == scenario.pipe.roles()
        if len(came) == 4:
            orders[tuple(came)] += 1

    drawn(programs_of_tensors, look, 50)
    assert len(orders) >= 6
    assert any(order.index("pipe-2") < order.index("pipe-1") for order in orders)
    assert any(order.index("pipe-1") < order.index("pipe-2") for order in orders)


def test_threads_wait_for_room_behind_one_that_gives_up() -> None:
    patient = Counter[bool]()

    def look(scenario: Scenario) -> None:
        beside = [s for s in scenario.steps if isinstance(s, PipeSend) and s.beside]
        times = [step.timeout or 0.0 for step in beside]
        patient[any(a < b for a, b in pairwise(times))] += 1

    drawn(programs_of_tensors, look)
    assert patient[True] >= patient[False]
