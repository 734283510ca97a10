"""Two requests, the first of which is never answered: what a front end does, and what is heard."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from killpoint.scenario import Wakes
from killpoint.systems.coordinator.checks.wakeups import check_request_wakes_all
from killpoint.systems.coordinator.unanswered_start_search import play
from killpoint.targets.coordinator_messages import Published, Started


class Toy:
    """A coordinator that starts a wave when told, unless it believes that one is on."""

    def __init__(self, *, front_ends_wake: bool, predicts: bool) -> None:
        self.front_ends_wake, self.predicts = front_ends_wake, predicts
        self.running = False
        self.out: list[Started | Published] = []

    @contextmanager
    def coordinate(self, engines: int) -> Generator[Toy]:
        del engines
        self.running = False
        yield self

    def arrive(self, engine: int) -> None:
        """It need not know."""

    def wake(self, engine: int, wave: int) -> None:
        if not self.running:
            self.running = self.predicts
            self.out.append(Started(wave, engine))

    want = wake

    def elapse(self, seconds: float) -> None:
        self.out.append(Published(0, self.running))

    def said(self) -> list[Started | Published]:
        out, self.out = self.out, []
        return out


@pytest.mark.parametrize("late", [False, True])
def test_one_that_believes_its_own_prediction_strands_the_second_request(late: bool) -> None:
    heard = play(Toy(front_ends_wake=True, predicts=True), Wakes(late=late))
    assert check_request_wakes_all(heard) is not None
    believed = "front end believes that all engines run, and wakes nobody" in heard.lines
    assert believed is not late


@pytest.mark.parametrize("late", [False, True])
def test_one_that_waits_for_evidence_wakes_all_again(late: bool) -> None:
    heard = play(Toy(front_ends_wake=True, predicts=False), Wakes(3, 0, late=late))
    assert check_request_wakes_all(heard) is None
    assert heard.lines[-1].startswith("front end is told") is not late


def test_where_engines_ask_a_held_one_does_not() -> None:
    heard = play(Toy(front_ends_wake=False, predicts=True), Wakes())
    assert check_request_wakes_all(heard) is None
    assert heard.lines.count("engine-1 wants wave 0") == 1
