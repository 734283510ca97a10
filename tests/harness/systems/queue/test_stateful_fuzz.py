"""Stories: the model knows what each call owes, so a true queue can meet every deadline."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from killpoint.scenario import Receive, Scenario, Send, dump, parse
from killpoint.systems.queue.model import QueueModel
from killpoint.systems.queue.stateful_fuzz import stories

_quick = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


@_quick
@given(stories("Q2/story", 1))
def test_only_calls_that_the_model_refuses_get_a_short_deadline(scenario: Scenario) -> None:
    model = QueueModel(scenario.shape.readers, scenario.shape.chunks)
    for step in scenario.steps:
        if isinstance(step, Send):
            assert step.timeout is not None
            assert model.send() == (step.timeout > 1)
        elif isinstance(step, Receive):
            assert step.timeout is not None
            took = [model.receive(int(step.roles[0][7:])) for _ in range(step.count)]
            assert all(took) == (step.timeout > 1)


@_quick
@given(stories("Q2/story", 1))
def test_at_the_end_every_reader_has_what_was_sent(scenario: Scenario) -> None:
    model = QueueModel(scenario.shape.readers, scenario.shape.chunks)
    for step in scenario.steps:
        if isinstance(step, Send):
            model.send()
        elif isinstance(step, Receive):
            for _ in range(step.count):
                model.receive(int(step.roles[0][7:]))
    assert model.behind() == [0] * scenario.shape.readers


@_quick
@given(stories("Q2/story", 1))
def test_a_story_is_a_scenario_file(scenario: Scenario) -> None:
    assert parse(dump(scenario), "x") == scenario
