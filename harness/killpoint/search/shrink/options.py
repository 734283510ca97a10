"""Fewer peculiarities: what is set to something unusual is set back to the default."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import msgspec

from killpoint.scenario import AnyStep, Fault, Point, Receive, ReceiveFrom, Scenario, Send
from killpoint.search.shrink.attempt import least, offer
from killpoint.search.shrink.messages import replaced

_OF_SCENARIO: dict[str, object] = {
    "namespaces": False,
    "restart": False,
    "observe": False,
    "start": "zygote",
    "umask": None,
    "shm_bytes": None,
}
_OF_SHAPE: dict[str, object] = {
    "remote": 0,
    "silence": None,
    "max_buffers": None,
    "max_buffer_bytes": None,
}
_ENOUGH = 1.0
"""Seconds: a healthy call of these takes milliseconds, on a busy machine some tens."""
_OF_STEP: dict[str, object] = {"threads": 1, "burst": False}


def fewer_options(scenario: Scenario) -> Generator[Scenario, bool]:
    """One peculiarity after the other is taken away."""
    for candidate_of in (_scenario_options, _shape_options, _step_options):
        for name, index in list(candidate_of(scenario)):
            candidate = _without(scenario, name, index)
            if (yield from offer(candidate)):
                scenario = candidate


def quicker_calls(scenario: Scenario) -> Generator[Scenario, bool]:
    """No call waits longer than a healthy one could need: each later play takes less time."""
    steps: list[AnyStep] = []
    for step in scenario.steps:
        if isinstance(step, Send | Receive | ReceiveFrom) and (step.timeout or 0) > _ENOUGH:
            step = msgspec.structs.replace(step, timeout=_ENOUGH)
        steps.append(step)
    if steps != scenario.steps:
        yield msgspec.structs.replace(scenario, steps=steps)


def earlier_points(scenario: Scenario) -> Generator[Scenario, bool]:
    """Each placed fault strikes in as early an operation as still fails."""
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Fault) and step.at is not None:
            scenario = yield from _earlier(scenario, index, step, step.at)


def _earlier(
    scenario: Scenario, index: int, step: Fault, at: Point
) -> Generator[Scenario, bool, Scenario]:
    def build(nth: int) -> Scenario:
        there = msgspec.structs.replace(at, nth=nth)
        return replaced(scenario, index, msgspec.structs.replace(step, at=there))

    return build((yield from least(at.nth, 0, build)))


def _scenario_options(scenario: Scenario) -> Iterator[tuple[str, int | None]]:
    for name, plain in _OF_SCENARIO.items():
        if getattr(scenario, name) != plain:
            yield name, None


def _shape_options(scenario: Scenario) -> Iterator[tuple[str, int | None]]:
    for name, plain in _OF_SHAPE.items():
        if getattr(scenario.shape, name) != plain:
            yield name, None


def _step_options(scenario: Scenario) -> Iterator[tuple[str, int | None]]:
    for index, step in enumerate(scenario.steps):
        for name, plain in _OF_STEP.items():
            if isinstance(step, Send | Receive) and getattr(step, name, plain) != plain:
                yield name, index


def _without(scenario: Scenario, name: str, index: int | None) -> Scenario:
    if index is not None:
        step = scenario.steps[index]
        return replaced(scenario, index, msgspec.structs.replace(step, **{name: _OF_STEP[name]}))
    if name in _OF_SCENARIO:
        return msgspec.structs.replace(scenario, **{name: _OF_SCENARIO[name]})
    shape = msgspec.structs.replace(scenario.shape, **{name: _OF_SHAPE[name]})
    return msgspec.structs.replace(scenario, shape=shape)
