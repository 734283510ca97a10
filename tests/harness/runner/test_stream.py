"""A steady stream keeps its pace and records its count; what is kept of it takes pages at once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from killpoint.runner import play_lock
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import MeasureMemory, Message, Pause, Receive, Scenario, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario

EXAMPLES = Path(__file__).parents[2] / "examples"
_SMALL = Message(size=512, repeat=200)


def _window(pace: float) -> list[Any]:
    return [
        Send([_SMALL], timeout=5.0, pace=pace),
        Receive(200, timeout=5.0, pace=0.0),
        Wait(within=9.0),
        MeasureMemory(),
    ]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("os_pipes:OsPipeTarget") as made:
            yield made


def test_a_stream_keeps_its_pace_and_leaves_no_line_for_each_message(stage: Stage) -> None:
    play = stage.play(queue_scenario("Q12/x", *OPEN_QUEUE, *_window(1000.0)))
    told = [(e.role, e.text("of"), e.number("count")) for e in play.history.of("streamed")]
    assert sorted(told) == [
        ("reader-0", "got", 200),
        ("reader-1", "got", 200),
        ("writer", "sent", 200),
    ]
    (end,) = [e for e in play.history.of("end", role="writer") if e.text("op") == "send"]
    took = end.data["s"]
    assert isinstance(took, float)
    assert took > 0.19
    assert not any(play.history.of("send", "sent", "receive", "got"))


def test_what_raises_ends_a_stream_and_is_told(stage: Stage) -> None:
    steps = [Receive(5, ("reader-0",), timeout=0.05, pace=0.0), Wait(within=9.0)]
    play = stage.play(queue_scenario("Q12/x", *OPEN_QUEUE, *steps))
    (got,) = play.history.of("got")
    assert (got.role, got.text("outcome")) == ("reader-0", "timeout")
    (end,) = [e for e in play.history.of("end") if e.text("op") == "receive"]
    assert end.text("outcome") == "stopped"


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="no glibc")
def test_what_stays_of_each_message_takes_pages_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 bytes of each of 200: three pages a window, though much more had been free in the heap."""
    monkeypatch.syspath_prepend(EXAMPLES)
    with Stage("leaky_pipes:Leak64") as leaky:
        play = leaky.play(queue_scenario("Q12/x", *OPEN_QUEUE, *_window(0.0) * 12))
    weights = [
        e.number("private") for e in play.history.of("weight") if e.data["target"] == "writer"
    ]
    assert len(weights) == 12
    assert abs(weights[-1] - weights[2] - 9 * 200 * 64) <= 3 * 4096


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="no glibc")
def test_what_threads_give_back_is_not_kept_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread more at a time in each window, with 100 kB each: what stays is stacks at most."""
    monkeypatch.syspath_prepend(EXAMPLES)
    with Stage("leaky_pipes:MoreThreadsAtATime") as crowded:
        play = crowded.play(queue_scenario("Q12/x", *OPEN_QUEUE, *_window(0.0) * 12))
    weights = [
        e.number("private") for e in play.history.of("weight") if e.data["target"] == "reader-0"
    ]
    assert len(weights) == 12
    assert weights[-1] - weights[1] < 300_000


def test_what_its_steps_prescribe_makes_a_play_a_long_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    @contextmanager
    def beside_others(*, long: bool, go_on: Callable[[], object]) -> Generator[bool]:
        seen.append(long)
        yield True

    def nothing(_scenario: Scenario) -> None:
        pass

    monkeypatch.setattr(play_lock, "beside_others", beside_others)
    monkeypatch.setattr(stage, "_play", nothing)
    stage.play(queue_scenario("Q12/x", *OPEN_QUEUE, *_window(1000.0) * 3))
    stage.play(queue_scenario("Q12/x", *OPEN_QUEUE, *_window(100.0) * 3))
    stage.play(queue_scenario("Q12/x", *OPEN_QUEUE, *[Pause(3.0)] * 2))
    assert seen == [False, True, True]


def test_what_was_too_short_to_tell_is_played_longer(stage: Stage) -> None:
    seen: list[int] = []

    class Player:
        def __init__(self, stage: Stage) -> None:
            self._stage = stage

        def play(self, queue_scenario: Scenario) -> Play:
            seen.append(len(queue_scenario.steps))
            return self._stage.play(queue_scenario)

        def forget(self, play: Play) -> None:
            self._stage.forget(play)

    short = queue_scenario("Q12/x", *OPEN_QUEUE, *_window(0.0))
    longer = queue_scenario("Q12/x", *OPEN_QUEUE, *_window(0.0) * 14)
    case_run = CaseRun("Q12/x", Player(stage), seed=0, full=False, folder=None)

    def run(case_run: CaseRun) -> None:
        case_run.play(short, longer=longer)

    outcome = case_run.judge(run)
    assert outcome.outcome != "violated", outcome.cause
    assert seen == [len(short.steps), len(longer.steps)]
    assert case_run.plays == 2
