"""What stands after an interrupted call: given to the next one, or closed when its time is over."""

import threading
from typing import Any

from refengine.group.standing import Standing

from ..roles import until


class Thing:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_thing_stands_at_its_place_until_it_is_given():
    standing: Standing[Any] = Standing()
    thing = Thing()
    standing.add("here", thing)
    assert standing.find("there") is None
    assert standing.find("here") is standing.find("here") is thing
    standing.give("here")
    assert standing.find("here") is None
    standing.give("here")
    assert thing.closed == 0


def test_the_clock_runs_while_nobody_asks_and_then_closes():
    standing: Standing[Any] = Standing()
    found, lapsed = Thing(), Thing()
    for place, thing in (("found", found), ("lapsed", lapsed)):
        standing.add(place, thing)
        standing.wind(place, 0.05)
    assert standing.find("found") is found
    until(lambda: lapsed.closed)
    assert (lapsed.closed, found.closed) == (1, 0)
    assert standing.find("lapsed") is None
    assert standing._clocks == {}


def test_a_clock_at_an_empty_place_does_not_run():
    standing: Standing[Any] = Standing()
    before = threading.active_count()
    standing.wind("here", 60.0)
    assert threading.active_count() == before
    assert standing._clocks == {}


def test_a_clock_keeps_no_process_from_ending():
    standing: Standing[Any] = Standing()
    standing.add("here", Thing())
    standing.wind("here", 60.0)
    assert standing._clocks["here"].daemon
    standing.find("here")
