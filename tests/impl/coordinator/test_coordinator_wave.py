"""The coordinator's half: who is told that a wave is on, and when."""

from __future__ import annotations

import pytest

from refengine.coordinator import CoordinatorWave, Report, Start, State


def _running(engines: int = 2) -> CoordinatorWave:
    core = CoordinatorWave(engines)
    core.hear(Report(0, wants=0, work=True))
    return core


def test_the_first_request_starts_the_wave_for_all_and_front_ends_hear_of_it() -> None:
    core = CoordinatorWave(3)
    assert core.hear(Report(1, wants=0, work=True)) == [Start(0, (0, 1, 2)), State(0, True)]


def test_a_start_is_repeated_for_whoever_wants_the_wave_that_is_on() -> None:
    core = _running()
    assert core.hear(Report(1, wants=0, work=True)) == [Start(0, (0, 1))]
    assert core.hear(Report(1, wants=0)) == [Start(0, (0, 1))]


def test_who_only_asks_starts_nothing() -> None:
    assert CoordinatorWave(2).hear(Report(1, wants=0)) == []


def test_a_wave_that_all_ended_is_over_and_is_over_once() -> None:
    core = _running()
    assert core.hear(Report(0, done=0)) == [State(1, False)]
    assert core.hear(Report(0, done=0)) == []


def test_a_replica_ahead_of_the_word_that_a_wave_has_ended_begins_the_next() -> None:
    core = _running()
    assert core.hear(Report(1, wants=1, work=True)) == [Start(1, (0, 1)), State(1, True)]
    assert core.hear(Report(0, done=0)) == []
    assert core.wave == 1


def test_a_late_subscriber_is_told_of_the_wave_that_is_on() -> None:
    core = CoordinatorWave(2)
    assert core.arrived(0) == []
    core.hear(Report(0, wants=0, work=True))
    assert core.arrived(1) == [Start(0, (0, 1))]


def test_a_lost_replica_breaks_its_wave_and_the_others_begin_the_next() -> None:
    core = _running(3)
    assert core.left(1) == [Start(1, (0, 2)), State(1, True, ((0, 0), None, (0, 0)))]
    assert core.left(1) == []


def test_two_ranks_lost_at_once_cost_one_wave() -> None:
    core = _running(3)
    out = core.hear(Report(0, wants=1, work=True, broke=0, lost=(1, 2)))
    assert [each for each in out if isinstance(each, Start)] == [Start(1, (0,)), Start(1, (0,))]
    assert core.hear(Report(0, broke=0, lost=(1,))) == []


def test_a_wave_that_broke_for_no_known_reason_is_begun_anew() -> None:
    core = _running()
    assert core.hear(Report(1, broke=0))[0] == Start(1, (0, 1))


def test_a_replica_that_comes_back_takes_part_from_the_next_wave_on() -> None:
    core = _running()
    core.left(1)
    assert core.arrived(1) == [State(1, True, ((0, 0), (0, 0)))]
    assert core.hear(Report(1, wants=0, work=True)) == []
    assert core.hear(Report(0, done=1))[0] == Start(2, (0, 1))


def test_a_want_of_one_believed_gone_waits_until_it_listens() -> None:
    core = CoordinatorWave(2)
    core.left(1)
    assert core.hear(Report(1, wants=0, work=True)) == []
    assert core.arrived(1)[0] == Start(0, (0, 1))


def test_nothing_begins_while_nobody_is_there() -> None:
    core = CoordinatorWave(1)
    core.left(0)
    assert core.hear(Report(0, wants=0, work=True)) == []
    assert not core.running


def test_scaling_takes_effect_with_the_next_wave() -> None:
    core = _running(2)
    assert core.scale(3) == [State(0, True, ((0, 0), (0, 0), (0, 0)))]
    assert core.hear(Report(2, wants=0, work=True)) == []
    assert core.hear(Report(0, done=0)) == [Start(1, (0, 1, 2)), State(1, True)]
    core.scale(1)
    core.hear(Report(0, done=1))
    assert core.hear(Report(0, wants=2, work=True))[0] == Start(2, (0,))


@pytest.mark.parametrize(
    "report",
    [
        Report(2, wants=0, work=True),
        Report(-1, done=0),
        Report(0, wants=2, work=True),
        Report(0, wants=-1, work=True),
        Report(0, done=1),
        Report(0, broke=7),
        Report(0, counts=(-1, 0)),
    ],
)
def test_what_is_out_of_range_is_counted_and_changes_nothing(report: Report) -> None:
    core = _running()
    assert core.hear(report) == []
    assert (core.refused, core.wave, core.counts) == (1, 0, [(0, 0), (0, 0)])


@pytest.mark.parametrize("engines", [0, -1, 1 << 40])
def test_a_scale_out_of_range_is_counted_and_changes_nothing(engines: int) -> None:
    core = CoordinatorWave(2)
    assert core.scale(engines) == []
    assert (core.refused, core.size) == (1, 2)


def test_what_is_valid_beside_what_is_not_is_kept() -> None:
    core = _running()
    core.hear(Report(0, done=9, counts=(3, 4)))
    assert (core.refused, core.wave, core.counts[0]) == (1, 0, (3, 4))
    core.hear(Report(0, done=0, counts=(-3, 4)))
    assert (core.refused, core.wave, core.counts[0]) == (2, 1, (3, 4))


def test_ranks_beyond_all_neither_arrive_nor_leave() -> None:
    core = _running()
    assert core.arrived(2) == core.left(5) == core.left(-1) == []


def test_the_whole_state_names_the_gone() -> None:
    core = CoordinatorWave(2)
    core.hear(Report(0, counts=(2, 1)))
    core.left(1)
    assert core.state() == State(0, False, ((2, 1), None))
