"""Stops at pages of a copy, 100 with ``--full``: each is exact, and messages arrive whole."""

from __future__ import annotations

import pytest

from killpoint.plugin import Referee
from killpoint.points.pages import Protected, Refused
from killpoint.scenario import AnyStep, Fault, Point, Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import chosen, count_places
from killpoint.systems.queue.cases.pages import around_copy

_STOPS, _STOPS_IF_FULL = 20, 100


def _around(step: AnyStep) -> Scenario:
    return around_copy("R2/exact-stops", "stop", step)


def test_stops_at_a_page_are_exact(referee: Referee, pytestconfig: pytest.Config) -> None:
    stops = _STOPS_IF_FULL if pytestconfig.getoption("--full") else _STOPS
    try:
        Protected().end()
    except Refused as refused:
        pytest.skip(str(refused))
    case_run = CaseRun(
        "R2/exact-stops", referee.stage(), seed=0, full=False, folder=referee.folder()
    )
    count = count_places(case_run, "writer", Point("send"), _around, "pages")
    exact = 0
    for page in chosen(case_run, count, stops):
        play = case_run.play(_around(Fault("stop", "writer", Point("send", page=page))))
        (reached,) = play.history.of("reached")
        exact += (reached.number("stored"), reached.number("early")) == (page, 0)
        assert reached.number("changed") >= page - 1
    print(f"{exact} of {stops} stops at page k are exact")
    referee.report(case_run.conclude())
    assert exact == stops
