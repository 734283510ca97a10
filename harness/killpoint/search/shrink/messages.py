"""Fewer messages: whole entries first, then shorter runs; receives follow. Fewer calls, too."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import msgspec

from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Call,
    Gather,
    Message,
    RingRead,
    RingWrite,
    Scenario,
    Send,
    SendTo,
)
from killpoint.search.shrink.attempt import fewest, least, offer
from killpoint.search.shrink.message_balance import settled
from killpoint.search.shrink.steps import makes_sense

Sending = Send | SendTo | Broadcast


def fewer_messages(scenario: Scenario) -> Generator[Scenario, bool]:
    """Reduce each sending step to as few messages as still fail, beginning with the last step."""
    for nth in reversed(range(len(sending(scenario)))):
        scenario = yield from _fewer_entries(scenario, sending(scenario)[nth])
        index = dict(enumerate(sending(scenario))).get(nth)
        places = range(len(_of(scenario, index))) if index is not None else ()
        for place in places:
            scenario = yield from _shorter_run(scenario, nth, place)


def fewer_slots(scenario: Scenario) -> Generator[Scenario, bool]:
    """Reduce the ring's writes and reads to as few as still fail: a write goes with its reads."""
    writes = [i for i, step in enumerate(scenario.steps) if isinstance(step, RingWrite)]

    def build(kept: Sequence[int]) -> Scenario | None:
        gone = {*writes} - {*kept}
        left = [step for i, step in enumerate(scenario.steps) if i not in gone]
        return _balanced(msgspec.structs.replace(scenario, steps=left), scenario)

    if any(isinstance(step, RingRead) for step in scenario.steps):
        yield from fewest(writes, build)


def fewer_rounds(scenario: Scenario) -> Generator[Scenario, bool]:
    """Reduce each barrier and gather of all ranks to as few rounds as still fail."""
    everybody = {*scenario.roles()}
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Barrier | Gather) and {*scenario.named(step.roles)} == everybody:
            scenario = yield from _fewer_times(scenario, index, step)


def fewer_calls(scenario: Scenario) -> Generator[Scenario, bool]:
    """Repeat each call of a pool's executor as few times as still fail."""
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Call):
            scenario = yield from _fewer_times(scenario, index, step)


def sending(scenario: Scenario) -> list[int]:
    """Return the indices of the scenario's sending steps."""
    return [index for index, step in enumerate(scenario.steps) if isinstance(step, Sending)]


def replaced(scenario: Scenario, index: int, step: AnyStep) -> Scenario:
    """The scenario with another step at a place."""
    steps = [*scenario.steps[:index], step, *scenario.steps[index + 1 :]]
    return msgspec.structs.replace(scenario, steps=steps)


def with_message(scenario: Scenario, index: int, place: int, **changed: object) -> Scenario:
    """The scenario with one of a sending step's messages changed."""
    messages = list(_of(scenario, index))
    messages[place] = msgspec.structs.replace(messages[place], **changed)
    return replaced(
        scenario, index, msgspec.structs.replace(scenario.steps[index], messages=messages)
    )


def _fewer_entries(scenario: Scenario, index: int) -> Generator[Scenario, bool, Scenario]:
    def build(messages: Sequence[Message]) -> Scenario | None:
        return _resent(scenario, index, list(messages))

    whole = _of(scenario, index)
    messages = yield from fewest(whole, build)
    return (build(messages) if len(messages) < len(whole) else None) or scenario


def _fewer_times(
    scenario: Scenario, index: int, step: Barrier | Gather | Call
) -> Generator[Scenario, bool, Scenario]:
    def build(times: int) -> Scenario:
        return replaced(scenario, index, msgspec.structs.replace(step, times=times))

    return build((yield from least(step.times, 1, build)))


def _shorter_run(scenario: Scenario, nth: int, place: int) -> Generator[Scenario, bool, Scenario]:
    """The message at a place of the ``nth`` sending step, repeated less; from its end if it grows.

    A run that grows fails at one of its sizes, perhaps the last: then that one alone is tried.
    """
    index = sending(scenario)[nth]
    message = _of(scenario, index)[place]
    if message.step and message.repeat > 1:
        last = message.size + message.step * (message.repeat - 1)
        alone = _balanced(
            with_message(scenario, index, place, size=last, repeat=1, step=0), scenario
        )
        if alone is not None and (yield from offer(alone)):
            return alone

    def build(repeat: int) -> Scenario | None:
        return _balanced(with_message(scenario, index, place, repeat=repeat), scenario)

    repeat = yield from least(message.repeat, 1, build)
    return build(repeat) or scenario


def _resent(scenario: Scenario, index: int, messages: list[Message]) -> Scenario | None:
    """The scenario with these messages in a sending step; without the step if there are none."""
    if messages:
        step = msgspec.structs.replace(scenario.steps[index], messages=messages)
        return _balanced(replaced(scenario, index, step), scenario)
    steps = [*scenario.steps[:index], *scenario.steps[index + 1 :]]
    return _balanced(msgspec.structs.replace(scenario, steps=steps), scenario)


def _balanced(smaller: Scenario, than: Scenario) -> Scenario | None:
    balanced = settled(smaller, than)
    return balanced if makes_sense(balanced, than) else None


def _of(scenario: Scenario, index: int) -> Sequence[Message]:
    step = scenario.steps[index]
    return step.messages if isinstance(step, Sending) else ()
