"""What the front end makes of a replica's signs of life."""

import pytest

from refengine.engine.front_end.replica_state import ReplicaState
from refengine.engine.protocol import Heartbeat


@pytest.fixture
def replica():
    made = ReplicaState("core-0", prefills=False)
    made.started(1, 42)
    made.arrived(0.0)
    return made


def beat(waiting=0, running=0, taken=0, steps=0, busy=0.0, imported=0, waits_for=""):
    return Heartbeat(waiting, running, taken, steps, busy, imported, waits_for)


def test_its_states_are_told_in_words():
    replica = ReplicaState("core-0", prefills=False)
    assert replica.state(0.0) == "starting"
    replica.started(1, 42)
    assert (replica.life, replica.pid, replica.state(0.0)) == (1, 42, "starting")
    replica.arrived(5.0)
    assert replica.state(7.0) == "ready"
    assert replica.state(7.1) == "stuck"
    replica.left(coming=True)
    assert (replica.state(9.0), replica.pid) == ("starting", 0)
    replica.left(coming=False)
    assert replica.state(9.0) == "dead"


def test_a_replica_with_requests_that_takes_no_step_is_stuck(replica):
    replica.sent("a", 10.0)
    for now in (10.0, 11.0, 12.1):
        replica.heartbeat(beat(running=1, taken=1), now)
    assert replica.since_step(12.1) == pytest.approx(2.1)
    assert replica.state(12.1) == "stuck"
    replica.heartbeat(beat(running=1, taken=1, steps=1), 12.2)
    assert (replica.since_step(12.3), replica.state(12.3)) == (pytest.approx(0.1), "ready")


def test_without_requests_it_need_not_step(replica):
    replica.heartbeat(beat(), 50.0)
    assert replica.since_step(50.0) == 0.0
    replica.sent("a", 50.0)
    replica.sent("b", 51.0)
    assert replica.since_step(51.5) == 1.5
    replica.open.clear()
    assert replica.since_step(60.0) == 0.0


def test_tokens_are_steps_too(replica):
    replica.sent("a", 1.0)
    replica.progressed(3.0)
    assert replica.since_step(4.0) == 1.0


def test_its_load_is_what_it_says_and_what_it_has_not_seen(replica):
    for name in "abc":
        replica.sent(name, 0.0)
    assert (replica.waiting, replica.running, replica.load) == (3, 0, 12)
    replica.heartbeat(beat(waiting=1, running=1, taken=2), 0.0)
    assert (replica.waiting, replica.running, replica.load) == (2, 1, 9)
    replica.expected += 1
    assert replica.load == 13
    replica.heartbeat(beat(taken=7), 0.0)
    assert replica.load == 4


@pytest.mark.parametrize(
    ("heard", "now", "cause"),
    [
        (beat(), 2.0, ""),
        (beat(), 2.1, "no sign of life for 2.1 s"),
        (beat(busy=1.9), 0.1, ""),
        (beat(busy=1.5), 0.6, "in one step for 2.1 s"),
    ],
)
def test_it_is_ended_when_it_is_silent_or_in_one_step_for_too_long(replica, heard, now, cause):
    replica.heartbeat(heard, 0.0)
    verdict = replica.drop_reason(now, 2.0)
    assert cause in verdict
    assert bool(verdict) == bool(cause)


def test_it_is_ended_when_others_keep_it_waiting_for_far_too_long(replica):
    replica.sent("a", 0.0)
    replica.heard_from(6.0)
    assert replica.drop_reason(6.0, 2.0) == ""
    replica.heard_from(6.1)
    assert replica.drop_reason(6.1, 2.0) == "its 1 requests have waited 6.1 s for its core"
    replica.heartbeat(beat(waits_for="the votes of ranks (1,)"), 6.2)
    assert "6.2 s for the votes of ranks (1,)" in replica.drop_reason(6.2, 2.0)


def test_one_that_is_not_there_is_not_ended(replica):
    replica.left(coming=True)
    assert replica.drop_reason(99.0, 2.0) == ""


def test_imports_are_counted_over_its_lives(replica):
    replica.heartbeat(beat(imported=2, steps=5), 0.0)
    replica.heartbeat(beat(imported=3, steps=9), 0.0)
    assert (replica.imported, replica.steps) == (3, 9)
    replica.left(coming=True)
    replica.arrived(0.0)
    assert replica.steps == 0
    replica.heartbeat(beat(imported=1), 0.0)
    assert replica.imported == 4


def test_a_new_life_begins_with_nothing(replica):
    replica.sent("a", 0.0)
    replica.heartbeat(beat(3, 4, 1, busy=1.0), 0.0)
    replica.left(coming=True)
    assert (replica.load, replica.open) == (0, set())
    replica.arrived(100.0)
    assert (replica.load, replica.since_step(105.0), replica.drop_reason(101.5, 2.0)) == (
        0,
        0.0,
        "",
    )
    assert replica.health(100.0).state == "ready"
