"""Sweeps over the table of operations: a story for each fault, and points in each call."""

from __future__ import annotations

import pytest
from synthetic import Tape
from test_crash_points import Counting

from killpoint.scenario import Count, Fault, Point, Receive, Scenario, Send, Wait, dump, parse
from killpoint.search.case_run import CaseRun, Play
from killpoint.search.operations import LARGE, Operation
from killpoint.search.sweeps import Around, around_death, around_stop, placed
from killpoint.systems.group.operations import GROUP, JOIN
from killpoint.systems.queue.operations import QUEUE, REMOTE

_EVERY = (*QUEUE, *REMOTE, *GROUP, *JOIN)
_SENDS = tuple(operation for operation in QUEUE if operation.verb == "send")
_WRITERS = tuple(operation for operation in QUEUE if operation.role == "writer")


def _trial(count: int, *, full: bool = False, seed: int = 1) -> tuple[CaseRun, Counting]:
    player = Counting(count)
    return CaseRun("R3/x", player, seed=seed, full=full, folder=None), player


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
    case_run, player = _trial(12, full=True)
    found = list(placed(case_run, _SENDS, 4))
    assert len(player.played) == len(_SENDS)
    assert [(o.name, p.line) for o, p, _ in found] == [
        (o.name, line) for o in _SENDS for line in range(12)
    ]


def test_fewer_samples_than_operations_are_spread_by_the_seed() -> None:
    chosen: set[str] = set()
    for seed in range(12):
        case_run, _ = _trial(40, seed=seed)
        found = list(placed(case_run, _WRITERS, 3))
        assert len({operation.name for operation, _, _ in found}) == 3
        chosen |= {operation.name for operation, _, _ in found}
    assert len(chosen) > 4


def test_only_what_every_call_comes_to_must_be_reached() -> None:
    case_run, _ = _trial(20, full=True)
    near = [missing for _, _, missing in placed(case_run, _SENDS[:1], 1)]
    far = [missing for _, _, missing in placed(case_run, REMOTE[4:5], 1)]
    assert near == [False] * 15 + [True] * 5
    assert far == [False] * 10 + [True] * 10


def test_an_operation_without_lines_is_doubted() -> None:
    case_run, _ = _trial(0)
    assert list(placed(case_run, _SENDS, 3)) == []
    assert case_run.conclude().outcome == "inconclusive"


class Without(Counting):
    """A player of whose calls one has no lines."""

    def __init__(self, op: str) -> None:
        super().__init__(12)
        self.op = op

    def play(self, scenario: Scenario) -> Play:
        counts = [step for step in scenario.steps if isinstance(step, Count)]
        self.count = 0 if any(step.at.op == self.op for step in counts) else 12
        return super().play(scenario)


def _verbs(op: str) -> tuple[CaseRun, set[str]]:
    """What is struck of a writer's sends and closes, of which one kind has no lines."""
    case_run = CaseRun("R3/x", Without(op), seed=1, full=True, folder=None)
    near = tuple(each for each in QUEUE if each.role == "writer" and each.verb in ("send", "close"))
    found = {operation.verb for operation, _, _ in placed(case_run, near, 9)}
    case_run.outcome.runs = 1  # of what was placed
    return case_run, found


def test_one_without_lines_is_doubted_beside_others_that_have_some() -> None:
    case_run, verbs = _verbs("send")
    assert verbs == {"close"}
    outcome = case_run.conclude()
    assert outcome.outcome == "inconclusive"
    assert "no line of writer's send was counted" in outcome.cause


def test_a_departure_without_lines_is_told_and_leaves_the_verdict_to_the_others() -> None:
    """Who leaves drops the object."""
    case_run, verbs = _verbs("close")
    assert verbs == {"send"}
    assert case_run.outcome.counts == {"departures that run no code of the target's": 1}
    assert case_run.conclude().outcome == "held"


class Shallow(Counting):
    """A player whose queue takes no large message that nobody receives."""

    def play(self, scenario: Scenario) -> Play:
        played = super().play(scenario)
        large = [m for s in scenario.steps if isinstance(s, Send) for m in s.messages]
        if any(message == LARGE for message in large):
            tape = Tape().sent(0).sent(1, "timeout", form="array", size=100_000, s=5.0)
            played.history = tape.history()
        return played


def test_calls_that_need_more_unread_room_than_there_is_are_left_out_and_told() -> None:
    case_run = CaseRun("R3/x", Shallow(12), seed=1, full=True, folder=None)
    receives = tuple(each for each in QUEUE if each.verb == "receive")
    found = {operation.name for operation, _, _ in placed(case_run, receives, 9)}
    assert found == {"receive-inline", "receive-apart", "receive-large"}
    assert case_run.outcome.counts == {"operations that need more room for unread messages": 1}


def test_a_sweep_of_such_calls_alone_is_unsupported() -> None:
    case_run = CaseRun("R3/x", Shallow(12), seed=1, full=True, folder=None)
    overflow = tuple(each for each in QUEUE if each.name == "receive-overflow")
    outcome = case_run.judge(lambda case_run: [*placed(case_run, overflow, 9)] and None)
    assert outcome.outcome == "unsupported"
    assert "the queue takes no more unread messages" in outcome.cause


def test_of_departures_alone_nothing_is_played_where_they_run_no_code() -> None:
    case_run, _ = _trial(0)
    assert list(placed(case_run, [o for o in QUEUE if o.verb == "close"], 3)) == []
    outcome = case_run.conclude()
    assert (outcome.outcome, outcome.cause) == ("inconclusive", "nothing was played")


@pytest.mark.parametrize("operation", [*QUEUE, *REMOTE], ids=lambda operation: operation.name)
def test_no_reader_asks_for_more_than_is_sent(operation: Operation) -> None:
    """It would wait for ever at a queue that has no deadlines."""
    steps = [*operation.lead, *operation.during, *operation.counted()]
    sent = sum(m.repeat for step in steps if isinstance(step, Send) for m in step.messages)
    for reader in ("reader-0", "reader-1"):
        takes = [s.count for s in steps if isinstance(s, Receive) and reader in s.roles]
        assert sum(takes) == sent or (operation.verb == "close" and not takes)


def test_points_are_as_fine_as_the_trial_asks_for() -> None:
    player = Counting(5)
    case_run = CaseRun("R3/x", player, seed=1, full=True, folder=None, depth="opcode")
    found = list(placed(case_run, _SENDS[:1], 1))
    assert {point.depth for _, point, _ in found} == {"opcode"}
    story = around_stop(_SENDS[0], "R3/x", Fault("stop", "writer", found[3][1]))
    assert parse(dump(story), "x") == story
    assert 'depth = "opcode"' in dump(story)
