"""Programs for a group: what is sent is received, so every call of a true group must succeed."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from killpoint.scenario import ReceiveFrom, Scenario, SendTo, dump, parse
from killpoint.systems.group.fuzz import programs

_quick = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


@_quick
@given(programs("G1/stories", 1))
def test_nobody_waits_for_what_was_not_sent_and_nothing_is_left(scenario: Scenario) -> None:
    owed: dict[tuple[str, str], int] = {}
    for step in scenario.steps:
        if isinstance(step, SendTo):
            owed[step.role, step.to] = owed.get((step.role, step.to), 0) + len(step.messages)
        elif isinstance(step, ReceiveFrom):
            owed[step.source, step.roles[0]] -= step.count
            assert owed[step.source, step.roles[0]] >= 0
    assert not any(owed.values())


@_quick
@given(programs("G1/stories", 1))
def test_a_program_is_a_scenario_file(scenario: Scenario) -> None:
    assert parse(dump(scenario), "x") == scenario
