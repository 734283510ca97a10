"""Fewer and smaller tensors: whole entries of a pipe's sends first, then runs, then their looks."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import msgspec

from killpoint.scenario import BlocksSend, PipeSend, Scenario, Tensor
from killpoint.search.shrink.attempt import fewest, least, offer
from killpoint.search.shrink.message_balance import settled
from killpoint.search.shrink.steps import makes_sense

_ROUGHLY = 8


def fewer_tensors(scenario: Scenario) -> Generator[Scenario, bool]:
    """Reduce each send of a pipe to as few tensors as still fail, beginning with the last send."""
    for index in reversed(_sending(scenario)):
        scenario = yield from _fewer_entries(scenario, index)
        for place, tensor in enumerate(tensors_of(scenario.steps[index])):
            scenario = yield from _shorter_run(scenario, index, place, tensor)


def smaller_tensors(scenario: Scenario) -> Generator[Scenario, bool]:
    """Each tensor in one plain row, and as short as still fails."""
    for index in _sending(scenario):
        for place, tensor in enumerate(tensors_of(scenario.steps[index])):
            scenario = yield from _shorter(scenario, index, place, tensor)


def tensors_of(step: object) -> Sequence[Tensor]:
    """Return the tensors that a step sends over a pipe."""
    if isinstance(step, PipeSend):
        return step.tensors
    return step.blocks if isinstance(step, BlocksSend) else ()


def _fewer_entries(scenario: Scenario, index: int) -> Generator[Scenario, bool, Scenario]:
    def build(tensors: Sequence[Tensor]) -> Scenario | None:
        return _balanced(_with(scenario, index, tensors), scenario)

    whole = tensors_of(scenario.steps[index])
    kept = yield from fewest(whole, build, keep=1)
    return (build(kept) if len(kept) < len(whole) else None) or scenario


def _shorter_run(
    scenario: Scenario, index: int, place: int, tensor: Tensor
) -> Generator[Scenario, bool, Scenario]:
    def build(repeat: int) -> Scenario | None:
        changed = msgspec.structs.replace(tensor, repeat=repeat)
        return _balanced(_placed(scenario, index, place, changed), scenario)

    return build((yield from least(tensor.repeat, 1, build))) or scenario


def _shorter(
    scenario: Scenario, index: int, place: int, tensor: Tensor
) -> Generator[Scenario, bool, Scenario]:
    def build(length: int) -> Scenario:
        row = msgspec.structs.replace(tensor, shape=(length,), layout="plain")
        return _placed(scenario, index, place, row)

    length = math.prod(tensor.shape)
    if tensor.form == "none" or ((len(tensor.shape), tensor.layout) == (1, "plain") and length < 2):
        return scenario
    if not (yield from offer(build(length))):
        return scenario
    return build((yield from least(length, min(length, 1), build, _ROUGHLY)))


def _sending(scenario: Scenario) -> list[int]:
    return [index for index, step in enumerate(scenario.steps) if tensors_of(step)]


def _placed(scenario: Scenario, index: int, place: int, tensor: Tensor) -> Scenario:
    tensors = list(tensors_of(scenario.steps[index]))
    tensors[place] = tensor
    return _with(scenario, index, tensors)


def _with(scenario: Scenario, index: int, tensors: Sequence[Tensor]) -> Scenario:
    step = scenario.steps[index]
    field = "tensors" if isinstance(step, PipeSend) else "blocks"
    changed = msgspec.structs.replace(step, **{field: list(tensors)})
    steps = [*scenario.steps[:index], changed, *scenario.steps[index + 1 :]]
    return msgspec.structs.replace(scenario, steps=steps)


def _balanced(smaller: Scenario, than: Scenario) -> Scenario | None:
    balanced = settled(smaller, than)
    return balanced if makes_sense(balanced, than) else None
