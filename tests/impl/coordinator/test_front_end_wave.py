"""A front end's half: what it knows goes forward."""

from __future__ import annotations

from refengine.coordinator import FrontEndWave, State


def test_a_front_end_takes_wave_and_counts_from_the_newest_state() -> None:
    front = FrontEndWave()
    front.hear(State(2, True, ((1, 0), None)))
    front.hear(State(3, False))
    assert (front.wave, front.running, front.counts) == (3, False, ((1, 0), None))


def test_an_older_state_is_no_news() -> None:
    front = FrontEndWave()
    front.hear(State(3, True))
    front.hear(State(3, False))
    front.hear(State(2, True, ((9, 9),)))
    assert (front.wave, front.running, front.counts) == (3, True, ())
