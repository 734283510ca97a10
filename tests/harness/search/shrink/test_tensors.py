"""Stories of pipes become smaller, and stay such as a sound pipe could play."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from killpoint.scenario import (
    AnyStep,
    BlocksReceive,
    BlocksSend,
    Fault,
    PipeClose,
    PipeMeet,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.search.shrink.attempt import Pass
from killpoint.search.shrink.roles import fewer_roles
from killpoint.search.shrink.search import search
from killpoint.search.shrink.steps import fewer_steps, waits_for_an_end
from killpoint.search.shrink.tensors import fewer_tensors, smaller_tensors, tensors_of
from killpoint.targets.protocol import PipeShape


def story(*steps: AnyStep, size: int = 2) -> Scenario:
    whole = [PipeOpen(), *steps, Wait()]
    return Scenario("K1/x", ["K1"], whole, pipe=PipeShape(size=size))


def smallest(
    scenario: Scenario, *passes: Pass, fails: Callable[[Scenario], bool] = lambda _: True
) -> list[AnyStep]:
    return search(scenario, fails, lambda: True, passes).scenario.steps


def carries(word: str) -> Callable[[Scenario], bool]:
    def fails(scenario: Scenario) -> bool:
        return any(word in (t.dtype, t.layout) for s in scenario.steps for t in tensors_of(s))

    return fails


def test_tensors_go_with_their_receives() -> None:
    batch = [Tensor(repeat=3), Tensor("int8", (4, 5)), Tensor(form="none")]
    long = story(PipeSend("pipe-0", batch), PipeReceive(("pipe-1",), 5))
    assert smallest(long, fewer_tensors, fails=carries("int8")) == [
        PipeOpen(),
        PipeSend("pipe-0", [Tensor("int8", (4, 5))]),
        PipeReceive(("pipe-1",), 1),
        Wait(),
    ]


def test_a_run_of_tensors_becomes_as_short_as_still_fails() -> None:
    long = story(PipeSend("pipe-0", [Tensor(repeat=9)]), PipeReceive(("pipe-1",), 9))

    def fails(scenario: Scenario) -> bool:
        return sum(t.repeat for step in scenario.steps for t in tensors_of(step)) >= 3

    found = smallest(long, fewer_tensors, fails=fails)
    assert found[1:3] == [PipeSend("pipe-0", [Tensor(repeat=3)]), PipeReceive(("pipe-1",), 3)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Tensor("int8", (4, 5), "transposed"), Tensor("int8", (1,))),
        (Tensor("int8", (0, 5)), Tensor("int8", (0,))),
        (Tensor("int8", (1,)), Tensor("int8", (1,))),
        (Tensor(form="none"), Tensor(form="none")),
    ],
)
def test_a_tensor_becomes_one_short_row(before: Tensor, after: Tensor) -> None:
    found = smallest(story(PipeSend("pipe-0", [before])), smaller_tensors)
    assert found[1] == PipeSend("pipe-0", [after])


def test_a_layout_that_is_needed_stays() -> None:
    needed = Tensor("int8", (4, 5), "stepped")
    found = smallest(story(PipeSend("pipe-0", [needed])), smaller_tensors, fails=carries("stepped"))
    assert found[1] == PipeSend("pipe-0", [needed])


def moves(scenario: Scenario) -> bool:
    """Whether a rank still sends or receives."""
    return any(isinstance(step, PipeSend | PipeReceive) for step in scenario.steps)


def test_the_end_that_a_pipes_rank_waits_for_stays() -> None:
    kill = Fault("kill", "pipe-0")
    asks = story(PipeReceive(("pipe-1",), 1), kill)
    fills = story(PipeSend("pipe-1", [Tensor(repeat=9)]), kill)
    for scenario in (asks, fills):
        assert waits_for_an_end(scenario)
        assert kill in smallest(scenario, fewer_steps, fails=moves)
    closes = story(PipeReceive(("pipe-1",), 1), PipeClose(("pipe-0",)))
    assert PipeClose(("pipe-0",)) in smallest(closes, fewer_steps, fails=moves)


def test_what_waits_by_its_own_deadline_does_not() -> None:
    timed = PipeReceive(("pipe-1",), 1, timeout=0.5)
    assert not waits_for_an_end(story(timed, Fault("kill", "pipe-0")))
    assert not waits_for_an_end(story(PipeSend("pipe-0", [Tensor()], timeout=1.0)))


def test_blocks_go_with_those_who_ask_for_them_and_are_waited_for() -> None:
    meet = PipeMeet()
    sends = [BlocksSend("pipe-0", name, [Tensor(repeat=4)], beside=True) for name in "ab"]
    asks = [BlocksReceive(("pipe-1",), name, 3.0) for name in "ab"]
    whole = story(sends[0], asks[0], sends[1], asks[1], meet)

    def fails(scenario: Scenario) -> bool:
        return any(isinstance(s, BlocksSend) and s.request == "b" for s in scenario.steps)

    found = smallest(whole, fewer_steps, fewer_tensors, fails=fails)
    fewer = BlocksSend("pipe-0", "b", [Tensor()], beside=True)
    assert found == [PipeOpen(), fewer, asks[1], meet, Wait()]


def test_no_rank_of_a_ring_goes() -> None:
    ring = story(PipeSend("pipe-0", [Tensor()]), PipeReceive(("pipe-1",), 1), size=3)
    assert smallest(ring, fewer_roles) == ring.steps
