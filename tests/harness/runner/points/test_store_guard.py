"""A role meets the runner around a store, in real plays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from killpoint.checkers import CHECKERS
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import Close, Count, Fault, Point, Receive, Send, Wait
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario, small


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage("refengine") as made:
        yield made


def _played(stage: Stage, step: Any, *more: Any) -> Play:
    steps = [*OPEN_QUEUE, step, Send([small(1)], timeout=5.0), Wait(("writer",)), Receive(2)]
    play = stage.play(queue_scenario("R3/x", *steps, *more, Close(("writer",)), Wait(within=5.0)))
    stage.forget(play)
    return play


def test_every_store_of_a_send_is_counted_its_number_and_the_flags(stage: Stage) -> None:
    play = _played(stage, Count("writer", Point("send"), "stores"))
    (counted,) = play.history.of("stores")
    # emptied, numbered, two readers' flags cleared, published
    assert counted.number("count") == 2 * 5


@pytest.mark.parametrize(
    ("store", "where"),
    [
        (0, "before slot 0 written = 0"),
        (3, "after number of message 0"),
        (9, "after slot 0 written = 1"),
    ],
)
def test_a_writer_dies_at_the_store_that_was_meant(stage: Stage, store: int, where: str) -> None:
    play = _played(stage, Fault("kill", "writer", Point("send", store=store)))
    (reached,) = play.history.of("reached")
    assert reached.text("where") == where
    ended = next(e for e in play.history.of("exit") if e.text("target") == "writer")
    assert ended.number("signal") == 9
    published = [e for e in play.history.of("got") if e.text("outcome") == "ok"]
    assert len(published) == (2 if store == 9 else 0)
    assert CHECKERS["Q6"](play.scenario, play.history, play.ledger).violations == []


def test_a_store_that_is_never_made_is_told(stage: Stage) -> None:
    play = _played(stage, Fault("stop", "writer", Point("send", store=99)))
    assert play.unreached == ["stop of writer at store 99 of send"]


def test_a_role_without_store_points_reports_none(stage: Stage) -> None:
    play = _played(stage, Count("writer", Point("send")))
    assert list(play.history.of("stores")) == []
    assert list(play.history.of("store")) == []
