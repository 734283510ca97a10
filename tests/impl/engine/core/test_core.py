"""What a core does of itself, and that several of them get on together whatever comes when."""

import math

import pytest

from refengine.coordinator import Report, Start, State
from refengine.engine.core.core import ReconnectCoordinator, Step
from refengine.engine.model.batching import Batch, StepResult
from refengine.engine.protocol import Output, Outputs, Refused, Request, Vote

from ..cores import Fleet, alone, member, request


def of(kind, actions):
    return [action for action in actions if isinstance(action, kind)]


# -- alone ----------------------------------------------------------------------------------------


def test_alone_it_steps_until_it_has_nothing():
    core, _ = alone()
    (step,) = core.add_request(request("a", 2), 0.0)
    assert [row.request_id for row in step.batch.rows] == ["a"]
    made, step = core.stepped((), 1.0)
    assert made == Outputs((Output("a", (7,)),))
    assert isinstance(step, Step)
    assert core.stepped((), 2.0) == [Outputs((Output("a", (7,), "length"),))]
    assert (core.steps, core.taken, core.unfinished) == (2, 1, 0)
    assert core.tick(3.0) == []


def test_it_takes_requests_while_its_workers_step():
    core, _ = alone()
    core.add_request(request("a"), 0.0)
    assert core.add_request(request("b"), 0.0) == []
    assert core.stepping_since == 0.0
    made, step = core.stepped((), 1.0)
    assert [output.id for output in made.outputs] == ["a"]
    assert [row.request_id for row in step.batch.rows] == ["a", "b"]
    assert core.stepping_since == 1.0


def test_what_it_can_never_serve_is_refused_and_counts_as_taken():
    core, _ = alone()
    assert core.add_request(request("a", 101), 0.0) == [Refused("a", "too many")]
    assert core.taken == 1


def test_cancelling_ends_a_request_and_of_others_nothing():
    core, steps = alone()
    core.add_request(request("a"), 0.0)
    assert core.cancel("a", 0.0) == [Outputs((Output("a", (), "cancelled"),))]
    assert core.cancel("b", 0.0) == []
    assert steps.cancelled == ["a", "b"]
    assert core.stepped((), 0.0) == []


def test_it_looks_for_blocks_now_and_then_without_spinning():
    core, steps = alone()
    steps.looks = 2
    assert core.tick(1.0) == [Step(Batch())]
    assert core.due() == math.inf
    assert core.stepped((), 1.0) == []
    assert core.due() == pytest.approx(1.002)
    assert core.tick(1.001) == []
    assert core.tick(1.002) == [Step(Batch())]
    core.stepped((), 1.003)
    assert core.tick(1.004) == []
    assert core.due() == math.inf


def test_a_request_is_begun_at_once_even_if_it_was_looking():
    core, steps = alone()
    steps.looks = 1
    core.tick(1.0)
    core.stepped((), 1.0)
    assert len(of(Step, core.add_request(request("a"), 1.0))) == 1


def test_prompts_whose_blocks_came_are_counted():
    core, _ = alone()
    for name in ("a", "b", "c"):
        core.add_request(Request(name, (1,), 9, imported="l", transfer=f"{name}'"), 0.0)
    core.stepped((StepResult([], ("a'", "x")), StepResult([], ("b'",))), 0.0)
    assert core.imported == 1
    core.stepped((StepResult([], ("b'", "a'"), ("c'",)),), 0.0)
    core.stepped((StepResult([], ("c'",)),), 0.0)
    assert core.imported == 2


def test_alone_a_coordinators_words_mean_nothing():
    core, _ = alone()
    assert core.coordinator_published(Start(1, (0,)), 0.0) == []
    assert core.coordinator_replaced(1, 0.0) == []


def test_what_it_waits_for_is_told():
    core, _ = alone()
    assert core.waits_for() == ""
    core.add_request(request("a"), 0.0)
    assert core.waits_for() == "its workers"


# -- one of several -------------------------------------------------------------------------------


def test_it_asks_for_a_wave_and_does_not_step_before():
    core, _ = member()
    assert core.add_request(request("a"), 0.0) == [Report(0, 0, True)]
    assert core.add_request(request("b"), 0.0) == []
    assert core.waits_for() == "the coordinator to begin a wave"
    assert core.coordinator_published(State(0, False), 0.0) == []
    (step,) = core.coordinator_published(Start(0, (0, 1)), 0.0)
    assert len(step.batch.rows) == 2


def test_it_votes_after_each_step_and_waits_for_the_others():
    core, _ = member()
    core.add_request(request("a", 1), 0.0)
    core.coordinator_published(Start(3, (0, 1)), 0.0)
    assert of(Vote, core.stepped((), 1.0)) == [Vote(0, 3, 0, 0, 1, unfinished=False)]
    assert core.waits_for() == "the votes of ranks (1,)"
    assert core.due() == 6.0
    (step,) = core.vote(Vote(0, 3, 0, 1, 1, unfinished=True), 2.0)
    assert step == Step(None)
    assert of(Vote, core.stepped((), 2.0))[0].step == 1
    assert core.vote(Vote(0, 3, 1, 1, 1, unfinished=False), 2.0) == [Report(0, done=3)]
    assert core.waits_for() == ""


def test_only_the_first_of_a_wave_says_that_it_is_done():
    core, _ = member(rank=1)
    core.coordinator_published(Start(3, (0, 1)), 0.0)
    core.stepped((), 0.0)
    assert core.vote(Vote(0, 3, 0, 0, 1, unfinished=False), 0.0) == []
    assert core.wave.wave == 4


def test_a_lost_member_breaks_the_wave():
    core, _ = member()
    core.add_request(request("a", 9), 0.0)
    core.peers_changed({0: 1, 1: 1}, 0.0)
    core.coordinator_published(Start(0, (0, 1)), 0.0)
    core.stepped((), 0.0)
    assert core.peers_changed({0: 1}, 0.0) == [Report(0, 1, True, broke=0, lost=(1,))]
    (step,) = core.coordinator_published(Start(1, (0,)), 0.0)
    assert step.batch is not None


def test_silence_breaks_it_too():
    core, _ = member()
    core.coordinator_published(Start(0, (0, 1)), 0.0)
    core.stepped((), 1.0)
    assert core.tick(5.9) == []
    assert core.tick(6.0) == [Report(0, broke=0, lost=(1,))]


def test_a_later_wave_ends_the_wait_in_this_one():
    core, _ = member()
    core.coordinator_published(Start(0, (0, 1)), 0.0)
    core.stepped((), 0.0)
    actions = core.coordinator_published(Start(1, (0, 1)), 0.0)
    assert actions == [Report(0, broke=0), Step(None)]
    assert core.wave.wave == 1


def test_the_same_wave_said_again_changes_nothing():
    core, _ = member()
    core.coordinator_published(Start(3, (0, 1)), 0.0)
    assert core.coordinator_published(Start(3, (0, 1)), 0.0) == []
    core.stepped((), 0.0)
    assert core.coordinator_published(Start(3, (0, 1)), 0.0) == []
    (step,) = core.vote(Vote(0, 3, 0, 1, 1, unfinished=True), 0.0)
    assert isinstance(step, Step)


def test_each_wave_is_voted_on_from_its_first_step_on():
    core, _ = member()
    for wave in (3, 5):
        core.coordinator_published(Start(wave, (0, 1)), 0.0)
        assert of(Vote, core.stepped((), 0.0)) == [Vote(0, wave, 0, 0, 1, unfinished=False)]
        assert core.vote(Vote(0, wave, 0, 1, 1, False), 0.0) == [Report(0, done=wave)]


def test_a_later_wave_that_begins_during_a_step_waits_for_its_end():
    core, _ = member()
    core.coordinator_published(Start(0, (0, 1)), 0.0)
    assert core.coordinator_published(Start(1, (0, 1)), 0.0) == []
    actions = core.stepped((), 0.0)
    assert of(Report, actions) == [Report(0, broke=0)]
    assert of(Step, actions) == [Step(None)]


def test_somebody_outside_the_wave_makes_it_regroup_at_most_once_a_second():
    core, _ = member()
    core.add_request(request("a", 99), 0.0)
    core.peers_changed({0: 1, 1: 1}, 0.0)
    core.coordinator_published(Start(0, (0,)), 0.0)
    actions = core.stepped((), 5.0)
    assert of(Vote, actions)[0].regroup
    assert of(Report, actions) == [Report(0, 1, True, broke=0)]
    core.coordinator_published(Start(1, (0,)), 5.0)
    assert not of(Vote, core.stepped((), 5.5))[0].regroup
    assert of(Vote, core.stepped((), 6.0))[0].regroup


def test_anothers_wish_to_regroup_ends_the_wave_here_too():
    core, _ = member()
    core.coordinator_published(Start(0, (0, 1)), 0.0)
    core.stepped((), 0.0)
    assert core.vote(Vote(0, 0, 0, 1, 1, True, regroup=True), 0.0) == [Report(0, broke=0)]


def test_unanswered_it_comes_anew_and_asks_again():
    core, _ = member()
    core.add_request(request("a"), 1.0)
    assert core.due() == 3.0
    assert core.tick(2.9) == []
    assert core.tick(3.0) == [ReconnectCoordinator(), Report(0, 0, True)]
    assert core.due() == 5.0


def test_idle_it_asks_nothing():
    core, _ = member()
    assert core.tick(99.0) == []
    assert core.due() == math.inf


def test_another_coordinator_is_asked_anew():
    core, _ = member()
    core.add_request(request("a", 9), 0.0)
    core.add_request(request("b", 9), 0.0)
    core.coordinator_published(Start(4, (0, 1)), 0.0)
    assert core.coordinator_replaced(2, 0.0) == [Report(0, 0, True)]
    assert of(Vote, core.stepped((), 0.0)) == []
    (step,) = core.coordinator_published(Start(0, (0, 1)), 0.0)
    assert len(step.batch.rows) == 2
    assert of(Vote, core.stepped((), 0.0))[0].era == 2
    assert core.wave.unfinished == 2


# -- several --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("size", [2, 3])
def test_every_request_ends_whatever_is_heard_first(size, seed):
    fleet = Fleet(size, seed)
    for number in range(12):
        fleet.ask(f"r{number}", fleet.lot.randint(1, 5))
        for _ in range(fleet.lot.randint(0, 12)):
            fleet.turn()
    fleet.run(lambda: len(fleet.finished) == 12)
    for counted in fleet.steps.values():
        assert max(counted.values()) - min(counted.values()) <= 1


@pytest.mark.parametrize("seed", range(16))
def test_deaths_and_returns_strand_no_request(seed):
    fleet = Fleet(3, seed)
    for number in range(30):
        fleet.ask(f"r{number}", fleet.lot.randint(1, 9))
        for _ in range(fleet.lot.randint(0, 15)):
            fleet.turn()
        what = fleet.lot.random()
        dead = [rank for rank in range(3) if rank not in fleet.cores]
        if what < 0.15 and len(fleet.cores) > 1:
            fleet.kill(fleet.lot.choice(list(fleet.cores)))
        elif what < 0.4 and dead:
            fleet.start(dead[0])
        elif what < 0.5:
            fleet.new_coordinator()
    fleet.run(lambda: len(fleet.finished) == 30)


@pytest.mark.parametrize("seed", range(4))
def test_a_newcomer_is_taken_in_though_the_others_never_pause(seed):
    fleet = Fleet(3, seed)
    fleet.kill(2)
    for number in range(8):
        fleet.ask(f"long{number}", 100)
    fleet.run(lambda: fleet.cores[0].steps > 5)
    fleet.start(2)
    fleet._do(2, fleet.cores[2].add_request(request("late", 2), fleet.now))
    fleet.run(lambda: "late" in fleet.finished)
