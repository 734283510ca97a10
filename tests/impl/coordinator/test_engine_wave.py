"""A replica's half: when it steps, and what it asks for."""

from __future__ import annotations

import pytest

from refengine.coordinator import EngineWave, Report, Start

BOTH = (0, 1)


def _stepping(rank: int = 0) -> EngineWave:
    engine = EngineWave(rank)
    engine.hear(Start(0, BOTH))
    return engine


def test_an_idle_replica_with_a_request_wants_its_wave_once_and_waits() -> None:
    engine = EngineWave(1)
    assert engine.accepted() == [Report(1, wants=0, work=True)]
    assert engine.accepted() == []
    assert not engine.running
    engine.hear(Start(0, BOTH))
    assert engine.running
    assert engine.accepted() == []


def test_a_stale_start_does_not_arm_a_paused_replica() -> None:
    engine = _stepping()
    assert engine.agreed(anyone_unfinished=False) == [Report(0, done=0)]
    engine.hear(Start(0, BOTH))
    assert (engine.running, engine.wave) == (False, 1)


def test_the_lowest_rank_in_the_wave_says_that_it_has_ended() -> None:
    assert _stepping(1).agreed(anyone_unfinished=False) == []
    engine = EngineWave(1)
    engine.hear(Start(4, (1, 2)))
    assert engine.agreed(anyone_unfinished=False) == [Report(1, done=4)]


def test_it_steps_on_while_anyone_has_work() -> None:
    engine = _stepping()
    assert engine.agreed(anyone_unfinished=True) == []
    assert (engine.running, engine.wave) == (True, 0)


def test_a_request_that_came_during_the_last_all_reduce_wants_the_next_wave() -> None:
    engine = _stepping()
    engine.accepted()
    assert engine.agreed(anyone_unfinished=False) == [Report(0, wants=1, work=True, done=0)]
    assert engine.accepted() == []


def test_a_start_of_the_next_wave_heard_during_this_one_is_obeyed_after_it() -> None:
    engine = _stepping(1)
    engine.hear(Start(1, BOTH))
    assert engine.wave == 0
    engine.agreed(anyone_unfinished=False)
    assert (engine.running, engine.wave) == (True, 1)


def test_a_start_without_it_is_not_its_own() -> None:
    engine = EngineWave(1)
    engine.hear(Start(0, (0, 2)))
    assert not engine.running


def test_one_that_comes_late_takes_the_wave_from_the_start() -> None:
    engine = EngineWave(1)
    engine.hear(Start(7, BOTH))
    assert (engine.running, engine.wave, engine.members) == (True, 7, BOTH)


def test_a_held_replica_obeys_no_start_and_asks_once_released() -> None:
    engine = EngineWave(1)
    engine.hold()
    assert engine.accepted() == []
    engine.hear(Start(0, BOTH))
    assert not engine.running
    assert engine.release() == [Report(1, wants=0, work=True)]
    assert engine.release() == []


def test_one_released_without_work_asks_all_the_same() -> None:
    engine = EngineWave(1)
    engine.hold()
    assert engine.release() == [Report(1, wants=0)]
    assert engine.accepted() == [Report(1, wants=0, work=True)]


def test_a_hold_takes_effect_after_the_wave_that_is_on() -> None:
    engine = _stepping(1)
    engine.hold()
    engine.accepted()
    engine.hear(Start(1, BOTH))
    assert engine.agreed(anyone_unfinished=False) == []
    assert (engine.running, engine.wave) == (False, 1)
    assert engine.release() == [Report(1, wants=1, work=True)]


def test_one_released_in_the_middle_of_a_wave_steps_on() -> None:
    engine = _stepping()
    engine.hold()
    assert engine.release() == []
    assert engine.running


def test_a_broken_all_reduce_is_told_with_who_is_lost_and_the_next_wave_is_wanted() -> None:
    engine = _stepping()
    engine.accepted()
    assert engine.broken((1,)) == [Report(0, wants=1, work=True, broke=0, lost=(1,))]
    assert not engine.running


def test_no_more_requests_end_than_came() -> None:
    engine = EngineWave(0)
    engine.accepted()
    engine.finished()
    with pytest.raises(ValueError, match="1 of 0 requests"):
        engine.finished()
