"""A live coordinator under mutated frames, at each of its sockets: it goes on publishing."""

from __future__ import annotations

import time
from multiprocessing.connection import wait
from typing import Any

import pytest

from refengine.coordinator import Coordinator, EngineLink, FrontEndLink, Report, protocol
from refengine.coordinator.protocol import Scale

from ..mutated_frames import mutated

_WITHIN = 10.0
_VALID = [protocol.encode(Report(1, 2, True, 1, None, (0,), (3, 4))), protocol.encode(Scale(2))]


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.full)])
def test_a_coordinator_survives_mutated_frames(count: int) -> None:
    coordinator = Coordinator(2)
    engine, front = EngineLink(coordinator.addresses, 0), FrontEndLink(coordinator.addresses)
    inside: list[Any] = [engine, front]  # their sockets say what a broken peer's might
    up, down, topics = inside[0]._reports, inside[1]._states, inside[0]._starts
    up.sndtimeo = int(_WITHIN * 1000)
    try:
        _counted(up, front, (1, 1))
        for number, frame in enumerate(mutated(_VALID, count, seed=count)):
            (down if number % 2 else up).send(frame)
            if number % 100 == 0:
                topics.subscribe(frame[:8])
                up.send(protocol.encode(Report(0)))
        down.send(b"\1")  # a mutant of one zero byte has ended the subscription
        _counted(up, front, (7, 7))
        assert not wait([coordinator.sentinel], 0.0)
    finally:
        engine.close()
        front.close()
        coordinator.close()


def _counted(up: Any, front: FrontEndLink, counts: tuple[int, int]) -> None:
    """These counts are told, and heard back."""
    end = time.monotonic() + _WITHIN
    while time.monotonic() < end:
        up.send(protocol.encode(Report(0, counts=counts)))
        state = front.hear(0.5)
        if state is not None and state.counts is not None and state.counts[0] == counts:
            return
    raise AssertionError(f"{counts} was not heard within {_WITHIN:g} s")
