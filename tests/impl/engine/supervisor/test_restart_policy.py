"""Parts are started, and started again; one that never comes to serve is given up."""

import math

import pytest

from refengine.engine.supervisor.restart_policy import RestartPolicy


def policy(*names, restart=True):
    return RestartPolicy(list(names) or ["a"], restart=restart, start_timeout=10.0)


def served(made, name="a", now=0.0):
    made.started(name, now)
    made.serves(name)


def test_every_part_is_started_at_once():
    made = policy("a", "b")
    assert made.due(0.0) == ["a", "b"]
    assert made.started("a", 0.0) == 1
    assert made.due(0.0) == ["b"]
    assert made.serving() == []


def test_one_that_has_served_is_started_again_at_once_and_counted():
    made = policy()
    served(made)
    assert made.serving() == ["a"]
    assert (made.due(5.0), made.next()) == ([], math.inf)
    assert made.ended("a", 5.0)
    assert made.serving() == []
    assert made.due(5.0) == ["a"]
    assert made.started("a", 5.0) == 2
    assert made.parts["a"].restarts == 1
    made.ended("a", 5.0)
    assert made.started("a", 5.0) == 3
    assert made.parts["a"].restarts == 2


def test_it_is_late_when_its_time_to_start_is_over():
    made = policy()
    made.started("a", 1.0)
    assert made.next() == 11.0
    assert made.late(10.9) == []
    assert made.late(11.0) == ["a"]
    made.serves("a")
    assert made.late(99.0) == []


def test_starts_that_come_to_nothing_pause_longer_each_time_and_end():
    made = policy()
    pauses = []
    for _ in range(4):
        made.started("a", 0.0)
        assert made.ended("a", 100.0)
        pauses.append(made.next() - 100.0)
        assert made.due(made.next() - 0.01) == []
    assert pauses == [0.25, 0.5, 1.0, 2.0]
    made.started("a", 0.0)
    assert not made.ended("a", 0.0)
    assert made.due(1e9) == []
    assert made.next() == math.inf


def test_a_start_that_serves_forgives_those_before():
    made = policy()
    made.started("a", 0.0)
    made.ended("a", 0.0)
    served(made)
    assert made.ended("a", 7.0)
    assert made.due(7.0) == ["a"]
    made.started("a", 7.0)
    made.ended("a", 7.0)
    assert made.next() == 7.25


@pytest.mark.parametrize("ready", [True, False])
def test_without_restarts_what_has_ended_stays_away(ready):
    made = policy(restart=False)
    made.started("a", 0.0)
    if ready:
        made.serves("a")
    assert not made.ended("a", 0.0)
    assert made.due(1e9) == []
    assert made.late(1e9) == []
