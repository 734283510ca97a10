"""Programs for a pool's executor: what has no deadline does not wait for a stopped worker."""

from __future__ import annotations

import pytest
from drawn_programs import drawn

from killpoint.scenario import Call, Fault, Results, Scenario, Submit
from killpoint.systems.pool import generator
from killpoint.systems.pool.generator import programs


def _submits_that_wait(scenario: Scenario) -> int:
    """Submissions while a worker is stopped that may owe replies to calls that ran out of time."""
    stopped = owes = False
    found = 0
    for step in scenario.steps:
        if isinstance(step, Fault):
            stopped = step.fault == "stop"
        elif isinstance(step, Call | Submit | Results) and stopped:
            found += owes and isinstance(step, Submit)
            owes = True
        elif isinstance(step, Call) and step.rank is None:
            owes = False
    return found


def test_nothing_is_submitted_to_a_stopped_worker_that_owes_replies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generator, "_ACTS", ("call", "submit", "stop", "continue", "continue"))
    some = drawn(programs, "H3/generated", 150)
    assert [scenario for scenario in some if _submits_that_wait(scenario)] == []
    stops = [sum(isinstance(s, Fault) and s.fault == "stop" for s in d.steps) for d in some]
    assert sum(each > 1 for each in stops) >= 20
