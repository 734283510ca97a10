"""The search ends with the smallest that fails, within its time, asking nothing twice."""

from __future__ import annotations

from synthetic import scene

from killpoint.scenario import (
    Attach,
    Close,
    Fault,
    Make,
    Message,
    Pause,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
    dump,
)
from killpoint.search.shrink.search import playable, search
from killpoint.search.shrink.size import size_of


def _large() -> Scenario:
    return scene(
        Make(),
        Attach(),
        Ready(timeout=10.0),
        Send([Message(repeat=50), Message("nested", 4000), Message("array", 2000)], timeout=9.0),
        Receive(52, timeout=9.0),
        Pause(1.0),
        Close(("reader-1",)),
        Wait(within=30.0),
        readers=4,
    )


def _fails(scenario: Scenario) -> bool:
    """Any message of 700 bytes, to at least two readers."""
    sends = [step for step in scenario.steps if isinstance(step, Send)]
    large = any(message.size >= 700 for step in sends for message in step.messages)
    return large and scenario.shape.readers >= 2


def test_the_smallest_scenario_that_fails_is_found() -> None:
    found = search(_large(), _fails, lambda: True)
    assert found.finished
    assert found.scenario.shape.readers == 2
    assert [type(step) for step in found.scenario.steps] == [
        Make,
        Attach,
        Ready,
        Send,
        Receive,
        Wait,
    ]
    (send,) = [step for step in found.scenario.steps if isinstance(step, Send)]
    assert send.messages == [Message(size=700)]


def test_nothing_is_asked_twice_and_nothing_that_cannot_be_played() -> None:
    asked: list[str] = []

    def fails(scenario: Scenario) -> bool:
        asked.append(dump(scenario))
        return _fails(scenario)

    found = search(_large(), fails, lambda: True)
    assert len(asked) == len(set(asked)) == found.tried
    assert all(playable(text) for text in asked)


def test_it_stops_when_the_time_is_up_with_what_it_has() -> None:
    left = iter([True] * 5)
    found = search(_large(), _fails, lambda: next(left, False))
    assert (found.tried, found.finished) == (5, False)
    assert _fails(found.scenario)
    assert size_of(found.scenario) < size_of(_large())


def test_what_fails_by_chance_alone_stays_as_it_is() -> None:
    found = search(_large(), lambda _: False, lambda: True)
    assert found.finished
    assert found.scenario == _large()


def test_a_scenario_without_its_roles_cannot_be_played() -> None:
    assert playable(dump(_large()))
    assert not playable(dump(scene(Fault("kill", "reader-7"))))


def test_sizes_are_compared_in_words() -> None:
    small = search(_large(), _fails, lambda: True).scenario
    told = size_of(_large()).compared(size_of(small))
    assert "5 roles → 3" in told
    assert "52 messages → 1" in told
    assert size_of(small).compared(size_of(small)) == ""
