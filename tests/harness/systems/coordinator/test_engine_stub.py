"""An engine that roles play steps in waves that it was told of, and counts what was in one."""

from __future__ import annotations

from killpoint.systems.coordinator.engine_stub import Stepping
from killpoint.targets.coordinator_messages import Started
from killpoint.targets.coordinator_protocol import Saying


def test_a_request_is_stepped_once_a_wave_is_on() -> None:
    engine = Stepping(1, begins=False)
    assert engine.accept(0) == Saying(wants=0)
    assert engine.stepped() == []
    engine.hear(Started(0, members=(0, 1)))
    assert engine.stepped() == [0]
    assert engine.accept(1) is None
    assert engine.stepped() == [1]


def test_one_that_begins_by_itself_waits_for_nobody() -> None:
    engine = Stepping(1, begins=True)
    assert engine.accept(0) == Saying(wants=0)
    assert engine.stepped() == [0]


def test_a_start_that_does_not_mean_it_changes_nothing() -> None:
    engine = Stepping(1, begins=False)
    for start in (Started(0, members=(0, 2)), Started(0, excluded=1)):
        engine.hear(start)
        assert not engine.running
    engine.hear(Started(0, excluded=0))
    assert engine.running


def test_a_wave_that_has_ended_here_is_over() -> None:
    engine = Stepping(0, begins=False)
    engine.hear(Started(0, members=(0,)))
    assert engine.end(says=True) == Saying(done=0)
    assert engine.end(says=True) is None
    engine.hear(Started(0, members=(0,)))
    assert (engine.wave, engine.running) == (1, False)


def test_one_of_those_in_a_wave_says_that_it_ended() -> None:
    engine = Stepping(1, begins=False)
    engine.hear(Started(0, members=(0, 1)))
    assert engine.end(says=False) is None
    assert engine.wave == 1


def test_a_broken_wave_is_told_with_what_it_wants_next() -> None:
    engine = Stepping(0, begins=False)
    assert engine.broken((1,)) is None
    engine.hear(Started(0, members=(0, 1)))
    assert engine.broken((1,)) == Saying(broke=0, lost=(1,), wants=1)
    assert not engine.running


def test_a_later_wave_takes_the_place_of_the_one_it_is_in() -> None:
    engine = Stepping(0, begins=False)
    engine.hear(Started(0, members=(0, 1)))
    engine.hear(Started(1, members=(0,)))
    assert (engine.wave, engine.members) == (1, (0,))
