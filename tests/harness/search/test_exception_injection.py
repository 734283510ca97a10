"""Sweeps of exceptions: every operation has its story, and is done once more when struck."""

from __future__ import annotations

import pytest
from test_crash_points import Counting

from killpoint.scenario import Fault, Point, Retry, Wait, dump, parse
from killpoint.search.case_run import CaseRun
from killpoint.search.exception_injection import around_strike, strike_anywhere
from killpoint.search.operations import Operation
from killpoint.systems.group.operations import GROUP
from killpoint.systems.queue.operations import QUEUE, REMOTE

_EVERY = (*QUEUE, *REMOTE, *GROUP)


def _name(operation: Operation) -> str:
    return operation.name


def test_names_are_unique() -> None:
    assert len({operation.name for operation in _EVERY}) == len(_EVERY)


@pytest.mark.parametrize("operation", _EVERY, ids=_name)
def test_a_story_is_a_scenario_file_whose_role_makes_the_call(operation: Operation) -> None:
    strike = Fault("raise", operation.role, Point(operation.verb, line=3))
    story = around_strike(operation, f"R9/{operation.name}", strike)
    assert parse(dump(story), "x") == story
    assert operation.role in story.roles()
    verbs = {str(step.__struct_config__.tag) for step in operation.during}
    assert operation.verb in verbs


@pytest.mark.parametrize("operation", _EVERY, ids=_name)
def test_what_was_struck_is_over_before_it_is_done_again(operation: Operation) -> None:
    strike = Fault("raise", operation.role, Point(operation.verb, line=3))
    steps = around_strike(operation, "R9/x", strike).steps
    (again,) = [index for index, step in enumerate(steps) if isinstance(step, Retry)]
    before = steps[again - 1]
    assert isinstance(before, Wait)
    assert before.roles == (operation.role,)


def test_of_a_call_that_differs_from_play_to_play_the_last_lines_may_be_missed() -> None:
    near, far = QUEUE[4], REMOTE[4]
    assert near.surely(40) == 30
    assert far.surely(40) == 20


def test_samples_are_spread_over_the_operations() -> None:
    player = Counting(30)
    sends = tuple(operation for operation in QUEUE if operation.verb == "send")
    strike_anywhere(CaseRun("R9/x", player, seed=1, full=False, folder=None), sends, 7)
    struck = [s for play in player.played for s in play.steps if isinstance(s, Fault)]
    assert [fault.fault for fault in struck] == ["raise"] * 7
    assert all(fault.at is not None and fault.at.line is not None for fault in struck)
