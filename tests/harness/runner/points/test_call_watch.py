"""A role dies at a native system call, and the record tells it apart from other ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.checkers import CHECKERS
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import Close, Count, Fault, Message, Point, Receive, Scenario, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.cases.builders import MIB, OPEN_QUEUE, queue_scenario


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage("refengine") as made:
        yield made


def _scene(step: Any) -> Scenario:
    steps = [*OPEN_QUEUE, step, Send([Message("array", MIB)], timeout=9.0), Receive(9)]
    return queue_scenario("Q6/x", *steps, Close(("writer",)), Wait(within=8.0), chunk_bytes=4096)


def _played(stage: Stage, step: Any) -> Play:
    play = stage.play(_scene(step))
    stage.forget(play)
    if play.unable:
        pytest.skip(play.unable)
    return play


def _aimed(call: int) -> Fault:
    return Fault("kill", "writer", Point("send", syscall="sendto", call=call))


def test_native_sends_are_counted(stage: Stage) -> None:
    play = _played(stage, Count("writer", Point("send", syscall="sendto"), "calls"))
    (counted,) = play.history.of("calls")
    assert counted.text("target") == "writer"
    assert counted.number("count") >= 2  # a payload to each of two readers


@pytest.mark.parametrize("call", [0, 1])
def test_the_writer_dies_at_its_native_send_and_readers_are_told(stage: Stage, call: int) -> None:
    play = _played(stage, _aimed(call))
    (reached,) = play.history.of("reached")
    assert reached.text("where") == f"sendto {call} of a native thread"
    assert play.unreached == []
    assert CHECKERS["Q6"](play.scenario, play.history, play.ledger).violations == []


def test_a_native_send_that_is_never_made_is_told(stage: Stage) -> None:
    play = _played(stage, _aimed(50_000))
    assert play.unreached == ["kill of writer at sendto call 50000 of send"]
    assert play.history.first("reached") is None


def test_without_a_tracer_nothing_is_said_of_the_target(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    case_run = CaseRun("Q6/x", stage, seed=0, full=False, folder=tmp_path)
    outcome = case_run.judge(lambda each: print(each.play(_scene(_aimed(0))).seconds))
    assert (outcome.outcome, outcome.by_machine) == ("unsupported", True)
    assert "strace" in outcome.cause
