"""Fewer bytes: plainer messages, smaller ones, and a smaller ring."""

from __future__ import annotations

from collections.abc import Generator

import msgspec

from killpoint.scenario import Broadcast, Message, RingWrite, Scenario, Send, SendTo
from killpoint.search.shrink.attempt import least, offer
from killpoint.search.shrink.messages import replaced, sending, with_message

_ROUGHLY = 8
_BROKEN = ("undecodable", "unencodable")


def plainer_messages(scenario: Scenario) -> Generator[Scenario, bool]:
    """Each message as bytes, of one buffer, and not growing, where that still fails."""
    for index, place, message in _all(scenario):
        plainer: list[dict[str, object]] = []
        if message.kind not in (*_BROKEN, "bytes"):
            plainer.append({"kind": "bytes", "buffers": 1})
        if message.step:
            plainer.append({"step": 0})
        for changed in plainer:
            candidate = with_message(scenario, index, place, **changed)
            if (yield from offer(candidate)):
                scenario = candidate


def smaller_messages(scenario: Scenario) -> Generator[Scenario, bool]:
    """Each message with fewer buffers and bytes, as long as there is much to gain."""
    yield from _smaller(scenario, _ROUGHLY)


def smallest_messages(scenario: Scenario) -> Generator[Scenario, bool]:
    """Each message with as few buffers and bytes as still fail, to the last one."""
    yield from _smaller(scenario, 0)


def _smaller(scenario: Scenario, grain: int) -> Generator[Scenario, bool]:
    for index, place, message in _all(scenario):
        if message.kind == "buffers":
            scenario = yield from _lowered(scenario, index, place, "buffers", 0, grain)
        lowest = max(0, -message.step * message.repeat)
        scenario = yield from _lowered(scenario, index, place, "size", lowest, grain)


def smaller_slots(scenario: Scenario) -> Generator[Scenario, bool]:
    """Each slot filled with as few bytes as still fail."""
    for index, step in enumerate(scenario.steps):
        if isinstance(step, RingWrite):
            scenario = yield from _filled_less(scenario, index, step)


def _lowered(
    scenario: Scenario, index: int, place: int, field: str, lowest: int, grain: int
) -> Generator[Scenario, bool, Scenario]:
    def build(value: int) -> Scenario:
        return with_message(scenario, index, place, **{field: value})

    message = next(m for i, p, m in _all(scenario) if (i, p) == (index, place))
    return build((yield from least(getattr(message, field), lowest, build, grain)))


def _filled_less(
    scenario: Scenario, index: int, step: RingWrite
) -> Generator[Scenario, bool, Scenario]:
    def build(size: int) -> Scenario:
        return replaced(scenario, index, msgspec.structs.replace(step, size=size))

    return build((yield from least(step.size, 1, build)))


def smaller_ring(scenario: Scenario) -> Generator[Scenario, bool]:
    """As few chunks as still fail, then of as few bytes, sizes beyond the boundary following it."""
    if scenario.subject() is not scenario.shape:
        return  # it has no ring of its own

    def with_chunks(count: int) -> Scenario:
        shape = msgspec.structs.replace(scenario.shape, chunks=count)
        return msgspec.structs.replace(scenario, shape=shape)

    scenario = with_chunks((yield from least(scenario.shape.chunks, 1, with_chunks)))
    before = scenario
    lowest = min(before.shape.chunk_bytes, 64)

    def with_bytes(count: int) -> Scenario:
        return resized(before, count)

    yield from least(before.shape.chunk_bytes, lowest, with_bytes)


def resized(scenario: Scenario, chunk_bytes: int) -> Scenario:
    """The scenario with smaller chunks; what was near their size stays near by as much."""
    less = scenario.shape.chunk_bytes - chunk_bytes
    for index, place, message in _all(scenario):
        if scenario.shape.chunk_bytes // 2 <= message.size <= 2 * scenario.shape.chunk_bytes:
            size = max(0, message.size - less)
            scenario = with_message(scenario, index, place, size=size)
    for index, step in enumerate(scenario.steps):
        if isinstance(step, RingWrite):
            step = msgspec.structs.replace(step, size=min(step.size, chunk_bytes))
            scenario = replaced(scenario, index, step)
    shape = msgspec.structs.replace(scenario.shape, chunk_bytes=chunk_bytes)
    return msgspec.structs.replace(scenario, shape=shape)


def _all(scenario: Scenario) -> list[tuple[int, int, Message]]:
    """Every message with its step's place and its own in it."""
    found: list[tuple[int, int, Message]] = []
    for index in sending(scenario):
        step = scenario.steps[index]
        if isinstance(step, Send | SendTo | Broadcast):
            found += [(index, place, message) for place, message in enumerate(step.messages)]
    return found
