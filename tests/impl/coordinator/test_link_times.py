"""What a link knows of time: for how long it waits, and since when all was quiet."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from refengine.coordinator import EngineLink, FrontEndLink, State, protocol
from refengine.coordinator.links import _Link


class Said:
    """A socket with one message, or none."""

    def __init__(self, *frames: bytes) -> None:
        self.frames = frames
        self.waited: list[float] = []

    def poll(self, milliseconds: float) -> bool:
        self.waited.append(milliseconds)
        return bool(self.frames)

    def recv_multipart(self) -> list[bytes]:
        return list(self.frames)


class Left:
    """A context of which only is known how it was left."""

    def __init__(self) -> None:
        self.lingers: list[int] = []

    def destroy(self, linger: int) -> None:
        self.lingers.append(linger)


@pytest.mark.parametrize(
    ("seconds", "waited"), [(2.0, 2000.0), (0.0, 0.0), (-5.0, 0.0), (3e6, 2e9)]
)
def test_a_link_is_quiet_since_it_last_heard_something(seconds: float, waited: float) -> None:
    now = 100.0
    link = _Link(lambda: now)
    try:
        now = 103.0
        assert link.silent_for() == 3.0
        nothing, something = Said(), Said(protocol.ALL_REPLICAS, protocol.encode(State(1, True)))
        assert link._next(nothing, seconds) is None
        assert link.silent_for() == 3.0
        assert link._next(something, seconds) == State(1, True)
        assert link.silent_for() == 0.0
        assert nothing.waited == something.waited == [waited]
    finally:
        link.close()


@pytest.mark.parametrize("kind", [EngineLink, FrontEndLink])
def test_a_link_that_is_not_told_otherwise_waits_for_nothing(kind: Any) -> None:
    assert inspect.signature(kind.hear).parameters["seconds"].default == 0.0


def test_what_was_not_taken_holds_no_link_back() -> None:
    link, left = _Link(lambda: 0.0), Left()
    mine: Any = link._context
    link._context = left
    link.close()
    assert left.lingers == [0]
    mine.destroy(linger=0)
