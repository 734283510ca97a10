"""Sweeps over the table of operations: a story for each fault, and points in each call."""

from __future__ import annotations

import pytest
from test_kills import Counting

from killpoint.explore.operations import GROUP, JOIN, QUEUE, REMOTE, Operation
from killpoint.explore.sweeps import Around, around_death, around_stop, placed
from killpoint.explore.trial import Trial
from killpoint.scenario import Fault, Point, Wait, dump, parse

_EVERY = (*QUEUE, *REMOTE, *GROUP, *JOIN)
_SENDS = tuple(operation for operation in QUEUE if operation.verb == "send")
_WRITERS = tuple(operation for operation in QUEUE if operation.role == "writer")


def _trial(count: int, *, full: bool = False, seed: int = 1) -> tuple[Trial, Counting]:
    player = Counting(count)
    return Trial("R3/x", player, seed=seed, full=full, folder=None), player


@pytest.mark.parametrize("around", [around_stop, around_death])
@pytest.mark.parametrize("operation", _EVERY, ids=lambda operation: operation.name)
def test_a_story_is_a_scenario_file_that_waits_for_everybody(
    operation: Operation, around: Around
) -> None:
    fault = "stop" if around is around_stop else "kill"
    placed = Fault(fault, operation.role, Point(operation.verb, line=3))
    story = around(operation, "R3/x", placed)
    assert parse(dump(story), "x") == story
    assert placed in story.steps
    assert any(isinstance(step, Wait) for step in story.steps[story.steps.index(placed) :])


@pytest.mark.parametrize("operation", _EVERY, ids=lambda operation: operation.name)
def test_who_is_stopped_goes_on(operation: Operation) -> None:
    story = around_stop(operation, "R3/x", Fault("stop", operation.role, Point("send", line=1)))
    assert Fault("continue", operation.role) in story.steps


def test_a_full_sweep_comes_to_every_line_of_every_operation() -> None:
    trial, player = _trial(12, full=True)
    found = list(placed(trial, _SENDS, 4))
    assert len(player.played) == len(_SENDS)
    assert [(o.name, p.line) for o, p, _ in found] == [
        (o.name, line) for o in _SENDS for line in range(12)
    ]


def test_fewer_samples_than_operations_are_spread_by_the_seed() -> None:
    chosen: set[str] = set()
    for seed in range(12):
        trial, _ = _trial(40, seed=seed)
        found = list(placed(trial, _WRITERS, 3))
        assert len({operation.name for operation, _, _ in found}) == 3
        chosen |= {operation.name for operation, _, _ in found}
    assert len(chosen) > 4


def test_only_what_every_call_comes_to_must_be_reached() -> None:
    trial, _ = _trial(20, full=True)
    near = [missing for _, _, missing in placed(trial, _SENDS[:1], 1)]
    far = [missing for _, _, missing in placed(trial, REMOTE[4:5], 1)]
    assert near == [False] * 15 + [True] * 5
    assert far == [False] * 10 + [True] * 10


def test_an_operation_without_lines_is_doubted() -> None:
    trial, _ = _trial(0)
    assert list(placed(trial, _SENDS, 3)) == []
    assert trial.conclude().outcome == "inconclusive"


def test_points_are_as_fine_as_the_trial_asks_for() -> None:
    player = Counting(5)
    trial = Trial("R3/x", player, seed=1, full=True, folder=None, depth="opcode")
    found = list(placed(trial, _SENDS[:1], 1))
    assert {point.depth for _, point, _ in found} == {"opcode"}
    story = around_stop(_SENDS[0], "R3/x", Fault("stop", "writer", found[3][1]))
    assert parse(dump(story), "x") == story
    assert 'depth = "opcode"' in dump(story)
