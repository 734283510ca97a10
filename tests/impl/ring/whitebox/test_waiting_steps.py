"""What each strategy does, step by step, on a clock that moves by its yields and sleeps alone."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from refengine.errors import QueueClosed
from refengine.ring.waiting import Adaptive, SpinThenSleep, Yielding

TICK = 10e-6
"""Seconds that a yield takes."""


class Trace:
    """A post and a clock; `did` has a letter for each step, or the seconds of a sleep."""

    waiting_for = "a message"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.did, self.ends = 0.0, list[Any](), False
        self.true_at: int | None = None
        self.looks = 0
        monkeypatch.setattr(os, "sched_yield", self.give_way)

    def clock(self) -> float:
        return self.now

    def give_way(self) -> None:
        self.did.append("y")
        self.now = round(self.now + TICK, 9)

    def look(self) -> bool:
        self.looks += 1
        self.did.append("l")
        assert len(self.did) < 1_000_000
        return self.looks == self.true_at

    def announce_sleep(self) -> None:
        self.did.append("a")

    def block(self, seconds: float | None) -> None:
        self.did.append(seconds if seconds is None else round(seconds, 9))
        self.now = round(self.now + (seconds or 0.0), 9)

    def fault(self) -> Callable[[str], QueueClosed] | None:
        self.did.append("f")
        return QueueClosed if self.ends else None

    def of(self, strategy: Any, timeout: float | None, true_at: int | None = None) -> list[Any]:
        """What one wait does, without the asking for faults."""
        self.did, self.looks, self.true_at = [], 0, true_at
        self.result = strategy.wait(self.look, self, timeout)
        return [step for step in self.did if step != "f"]


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    return Trace(monkeypatch)


def adaptive(trace: Trace, readers: int = 1) -> Adaptive:
    return Adaptive(readers, clock=trace.clock, cores=2)


YIELDS = ["l", "y"] * 6


def test_bare_looks_then_yields_for_sixty_microseconds_then_sleeps(trace: Trace):
    did = trace.of(adaptive(trace), 1.0)
    assert trace.result is False
    asleep = ["l", "a", "l", round(1.0 - 60e-6, 9)]
    assert did == ["l"] * 150 + YIELDS + asleep + ["l", 0, "l"]


def test_a_sleep_is_followed_by_yields_again(trace: Trace):
    strategy = adaptive(trace, readers=2)  # no bare looks
    looks = 6 + 2 + 6 + 2
    did = trace.of(strategy, None, true_at=looks)
    assert did == [*YIELDS, "l", "a", "l", None, *YIELDS, "l", "a", "l"]
    assert trace.result is True


def test_whoever_slept_in_a_brief_wait_yields_longer_until_a_wait_is_long(trace: Trace):
    strategy = adaptive(trace, readers=2)
    yields: list[int] = []
    for _ in range(6):  # a block takes no time on this clock
        trace.true_at = None
        trace.looks = 0
        count = round(strategy._yielding / TICK)
        trace.of(strategy, None, true_at=count + 3)
        yields.append(trace.did.count("y"))
    assert yields == [6, 12, 24, 48, 50, 6]  # half a millisecond is no brief wait any more
    assert trace.of(strategy, 1.0, true_at=1) == ["l"]
    assert strategy._yielding == 120e-6  # what came in time changes nothing
    trace.of(strategy, 0.0002)
    assert strategy._yielding == 120e-6  # nor what never came


def test_messages_that_come_at_long_intervals_are_slept_for_again_and_again(trace: Trace):
    strategy = adaptive(trace, readers=2)
    strategy._yielding = 480e-6  # as after a burst
    for _ in range(4):
        trace.true_at = None
        trace.looks = 0
        trace.of(strategy, None, true_at=round(strategy._yielding / TICK) + 200)
        assert "a" in trace.did
        assert strategy._yielding == 60e-6


def test_looks_are_halved_by_failure_down_to_eight_and_grow_by_sixteen(trace: Trace):
    strategy = adaptive(trace)
    bare: list[int] = []
    for _ in range(6):
        trace.of(strategy, 1e-9)
        bare.append(strategy._looks)
    assert bare == [75, 37, 18, 9, 8, 8]
    for _ in range(10):
        trace.of(strategy, 1.0, true_at=1)
        bare.append(strategy._looks)
    assert bare[6:] == [24, 40, 56, 72, 88, 104, 120, 136, 150, 150]


def test_with_as_many_parties_as_cores_there_are_no_bare_looks(trace: Trace):
    for readers, looks in ((1, 150), (2, 0), (3, 0)):
        assert adaptive(trace, readers)._looks == looks


def strategies(trace: Trace) -> list[Any]:
    clock = trace.clock
    return [adaptive(trace), Yielding(clock=clock), Yielding(0.1, clock), SpinThenSleep(clock)]


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("timeout", [0, -1.0])
def test_no_time_is_news_one_look_and_the_fault(trace: Trace, index: int, timeout: float):
    strategy = strategies(trace)[index]
    assert trace.of(strategy, timeout) == [0, "l"]
    assert trace.did == [0, "l", "f"]
    assert trace.result is False
    trace.of(strategy, timeout, true_at=1)
    assert trace.did == [0, "l"]
    assert trace.result is True
    trace.ends = True
    with pytest.raises(QueueClosed, match="a message"):
        strategy.wait(lambda: False, trace, timeout)
    with pytest.raises(QueueClosed, match="a message"):
        strategy.wait(lambda: False, trace, None)


def test_a_spin_looks_for_news_every_five_milliseconds_for_a_second(trace: Trace):
    did = trace.of(SpinThenSleep(trace.clock), 1.5)
    spin = did[: did.index("a")]
    assert spin.count(0) == 200
    assert spin.count("y") == 100_000
    assert spin[:6] == ["l", 0, "l", "y", "l", "y"]
    assert did[len(spin) :] == ["a", "l", 0.5, "l", 0, "l"]


def test_after_its_spin_it_looks_again_every_five_seconds(trace: Trace):
    strategy = SpinThenSleep(trace.clock)
    trace.now = 1.0
    assert trace.of(strategy, 12.0) == [
        *["l", "a", "l", 5.0] * 2,
        *["l", "a", "l", 2.0],
        *["l", 0, "l"],
    ]
    assert trace.of(strategy, None, true_at=4) == ["l", "a", "l", 5.0, "l", "a", "l"]
    assert trace.result is True


def test_a_success_begins_the_spin_anew(trace: Trace):
    strategy = SpinThenSleep(trace.clock)
    trace.now = 7.0
    trace.of(strategy, None, true_at=1)
    assert "a" not in trace.of(strategy, 0.001)
    trace.now = 7.999
    assert "a" not in trace.of(strategy, 0.0005)
    trace.now = 8.0
    assert "a" in trace.of(strategy, 0.0005)


def test_without_a_nap_it_never_sleeps(trace: Trace):
    strategy = Yielding(clock=trace.clock)
    trace.now = 100.0
    assert trace.of(strategy, 0.0001) == ["l", 0, *["l", "y"] * 10, "l", 0, "l"]


def test_with_one_it_naps_once_three_seconds_were_quiet(trace: Trace):
    strategy = Yielding(0.5, trace.clock)
    trace.now = 2.9999
    assert "a" not in trace.of(strategy, 0.00005)
    trace.now = 3.0
    naps = ["l", "a", 0.5]
    assert trace.of(strategy, 1.2) == [*naps, *naps, "l", "a", 0.2, "l", 0, "l"]
    assert trace.of(strategy, None, true_at=3) == [*naps, *naps, "l"]
    assert trace.result is True
    assert "a" not in trace.of(strategy, 0.0005)
