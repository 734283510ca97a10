"""Roles live under every start method: forked from the zygote, or by multiprocessing's three."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from killpoint.checkers import CHECKERS
from killpoint.runner.stage import Stage
from killpoint.scenario import Fault, Receive, Scenario, Send, StartMethod, Wait
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario, small
from killpoint.targets.registry import resolve

METHODS: tuple[StartMethod, ...] = ("zygote", "fork", "spawn", "forkserver")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(resolve("refengine")) as stage:
        yield stage


def _under(method: StartMethod, played: Scenario) -> Scenario:
    return msgspec.structs.replace(played, start=method)


@pytest.mark.parametrize("method", METHODS)
def test_messages_pass_and_nothing_is_left(stage: Stage, method: StartMethod) -> None:
    steps = [*OPEN_QUEUE, Send([small(9)], timeout=9.0), Receive(9, timeout=9.0), Wait(within=20.0)]
    play = stage.play(_under(method, queue_scenario("R3/started", *steps)))
    found = CHECKERS["R3"](play.scenario, play.history, play.ledger)
    assert play.stalled == ""
    assert found.violations == []
    assert found.counts["messages"] == 18
    assert play.ledger.empty(), play.ledger.words()


@pytest.mark.parametrize("method", METHODS)
def test_a_kill_strikes_the_role_and_not_what_started_it(stage: Stage, method: StartMethod) -> None:
    steps = [*OPEN_QUEUE, Fault("kill", "writer"), Receive(5), Wait(within=6.0)]
    play = stage.play(_under(method, queue_scenario("Q6/started", *steps)))
    found = CHECKERS["Q6"](play.scenario, play.history, play.ledger)
    assert play.stalled == ""
    assert found.violations == []
    assert found.counts["deaths"] == 1
    assert play.ledger.empty(), play.ledger.words()
