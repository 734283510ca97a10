"""What is said again changes nothing, and what is said first is known from nothing."""

from __future__ import annotations

import pytest

from refengine.coordinator import EngineWave, FrontEndWave, Start, State

BOTH = (0, 1)


def test_a_start_that_is_repeated_in_its_wave_begins_no_other() -> None:
    engine = EngineWave(1)
    assert engine.hear(Start(0, BOTH)) == []
    assert engine.hear(Start(0, BOTH)) == []
    assert engine.agreed(anyone_unfinished=False) == []
    assert (engine.running, engine.wave) == (False, 1)


def test_a_held_replica_answers_nothing_to_a_start() -> None:
    engine = EngineWave(1)
    engine.hold()
    assert engine.hear(Start(0, BOTH)) == []


def test_a_front_end_knows_nothing_before_it_has_heard() -> None:
    front = FrontEndWave()
    assert (front.wave, front.running, front.counts) == (0, False, ())


@pytest.mark.parametrize("running", [False, True])
def test_a_state_that_is_repeated_brings_newer_counts(running: bool) -> None:
    front = FrontEndWave()
    for counts in (((1, 0),), ((2, 1),)):
        front.hear(State(0, running, counts))
        assert (front.wave, front.running, front.counts) == (0, running, counts)
