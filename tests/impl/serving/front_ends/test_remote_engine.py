"""A front end's engine: requests go by number, news come back; silence is not health."""

from __future__ import annotations

from typing import Any

import pytest

from refengine.engine import Delta, EngineClosed, EngineFull, EngineSilent, RequestFailed
from refengine.engine.settings import EngineSettings
from refengine.serving.front_ends.protocol import (
    Cancel,
    Failed,
    Outputs,
    Phase,
    State,
    Submit,
    decode_to_engine,
    decode_to_front_end,
    encode,
)
from refengine.serving.front_ends.remote_engine import RemoteEngine
from refengine.serving.metrics import MetricTotals

from ..fake_engine import WELL, FakeEngine


class Other:
    """The engine's process on paper, and the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes = True
        self.came: list[Any] = []
        self.engine = RemoteEngine(EngineSettings(), self._take, lambda: self.now)

    def _take(self, message: Submit | Cancel) -> bool:
        if self.takes:
            self.came.append(decode_to_engine(encode(message)))
        return self.takes

    def says(self, message: Outputs | Failed | State) -> None:
        known = decode_to_front_end(encode(message))
        assert known == message
        self.engine.receive(known)

    def state(self, phase: Phase = "serving") -> None:
        self.says(State(phase, "", WELL, FakeEngine().counts(), (), ()))


def test_a_request_goes_there_and_its_tokens_come_back() -> None:
    other = Other()
    stream = other.engine.submit([1, 2], 5, request_id="a")
    beside = other.engine.submit([3], 6)
    assert other.came == [Submit(1, "a", (1, 2), 5), Submit(2, "request-2", (3,), 6)]
    other.says(Outputs(((1, (7,), None), (2, (8,), "stop"), (1, (9,), "length"))))
    assert (stream.result(0).tokens, stream.result(0).finish) == ((7, 9), "length")
    assert beside.next(0) == Delta((8,), "stop")


def test_what_can_never_be_served_is_refused_here() -> None:
    other = Other()
    with pytest.raises(ValueError, match="prompt"):
        other.engine.submit([], 5)
    assert not other.came


@pytest.mark.parametrize(
    "error",
    [EngineFull(3, 2), EngineClosed("submit"), RequestFailed("a", "core-0 died", (4, 5))],
)
def test_an_error_of_the_engine_s_is_the_same_here(error: Any) -> None:
    other = Other()
    stream = other.engine.submit([1], request_id="a")
    other.says(Failed.of(1, error))
    with pytest.raises(type(error)) as raised:
        stream.next(0)
    assert raised.value.facts == error.facts
    stream.cancel()
    assert len(other.came) == 1


def test_an_error_that_nobody_knows_names_its_type() -> None:
    error = Failed.of(1, ValueError("in use")).error("a")
    assert isinstance(error, RequestFailed)
    assert (error.request_id, error.cause) == ("a", "ValueError: in use")


def test_a_cancelled_request_is_cancelled_there() -> None:
    other = Other()
    other.engine.submit([1], request_id="a").cancel()
    assert other.came[1:] == [Cancel(1)]


def test_an_engine_that_takes_nothing_is_full() -> None:
    other = Other()
    other.takes = False
    with pytest.raises(EngineFull):
        other.engine.submit([1]).next(0)


def test_health_is_what_was_told_until_nothing_is_told() -> None:
    other = Other()
    assert (other.engine.health().alive, other.engine.health().ready) == (True, False)
    other.state()
    assert other.engine.health() == WELL
    assert other.engine.counts() == FakeEngine().counts()
    other.now = 3.1
    health = other.engine.health()
    assert (health.alive, health.ready, health.progressing) == (False, False, False)
    assert health.replicas == WELL.replicas
    with pytest.raises(EngineSilent, match=r"3\.1 s"):
        other.engine.submit([1])
    other.state()
    assert other.engine.health() == WELL


def test_nobody_waits_for_an_engine_that_is_not_heard_of() -> None:
    other = Other()
    stream = other.engine.submit([1])
    other.now = 14.0
    other.engine.tick()
    assert not stream.ended
    other.now = 15.1
    other.engine.tick()
    with pytest.raises(EngineSilent):
        stream.next(0)
    assert other.came[-1] == Cancel(1)


def test_sums_of_several_processes_never_fall() -> None:
    totals = MetricTotals()
    totals.update("a", (("x", (), 1.0), ("y", (("status", "200"),), 2.0)))
    totals.update("b", (("x", (), 10.0),))
    expected = (("x", (), 11.0), ("y", (("status", "200"),), 2.0))
    assert totals.samples() == expected
    totals.retire("a")
    assert totals.samples() == expected
    totals.update("a", (("x", (), 5.0),))
    assert totals.samples()[0] == ("x", (), 16.0)
    totals.retire("never heard of")
