"""The wave cores at the edges of what is in range."""

from __future__ import annotations

import pytest

from refengine.coordinator import CoordinatorWave, EngineWave, Report, Start, State


def _running(engines: int = 3) -> CoordinatorWave:
    core = CoordinatorWave(engines)
    core.hear(Report(0, wants=0, work=True))
    return core


def test_nobody_is_in_a_wave_before_the_first() -> None:
    assert CoordinatorWave(2).members == EngineWave(0).members == ()
    assert EngineWave(0)._next is None


def test_counts_of_zero_are_counts() -> None:
    core = CoordinatorWave(2)
    core.hear(Report(0, counts=(3, 1)))
    core.hear(Report(0, counts=(0, 0)))
    assert (core.counts, core.refused) == ([(0, 0), (0, 0)], 0)


@pytest.mark.parametrize(("rank", "refused"), [(-1, 1), (0, 0), (2, 0), (3, 1)])
def test_the_ranks_that_arrive_are_those_there_are(rank: int, refused: int) -> None:
    core = _running()
    assert len(core.arrived(rank)) == 1 - refused
    assert core.refused == refused


@pytest.mark.parametrize(("engines", "refused"), [(1, 0), (4096, 0), (4097, 1)])
def test_a_scale_is_within_its_limits(engines: int, refused: int) -> None:
    core = CoordinatorWave(2)
    core.scale(engines)
    assert (core.refused, len(core.counts)) == (refused, 2 if refused else engines)


def test_growing_and_shrinking_keep_the_counts_of_those_who_stay() -> None:
    core = CoordinatorWave(2)
    core.hear(Report(1, counts=(3, 1)))
    core.scale(3)
    assert core.counts == [(0, 0), (3, 1), (0, 0)]
    core.scale(2)
    core.scale(4)
    assert core.counts == [(0, 0), (3, 1), (0, 0), (0, 0)]


def test_one_that_was_gone_when_its_rank_was_scaled_away_is_missed_no_more() -> None:
    core = CoordinatorWave(3)
    for rank in (0, 1, 2):
        core.left(rank)
    core.scale(1)
    assert core.gone == {0}


def test_a_member_that_was_scaled_away_can_still_break_and_end_its_wave() -> None:
    core = _running()
    core.scale(2)
    assert core.left(2)[0] == Start(1, (0, 1))
    assert core.gone == frozenset()
    core.scale(1)
    assert core.hear(Report(0, broke=1, lost=(1,)))[0] == Start(2, (0,))
    assert (core.gone, core.refused) == (frozenset(), 0)


@pytest.mark.parametrize("first", [1, 2])
def test_the_lowest_member_says_that_its_wave_is_over_though_it_was_scaled_away(first: int) -> None:
    core = CoordinatorWave(3)
    for rank in range(first):
        core.left(rank)
    core.hear(Report(2, wants=0, work=True))
    core.arrived(0)
    core.hear(Report(0, wants=0, work=True))
    core.scale(1)
    assert core.hear(Report(first, counts=(3, 1), done=0))[0] == Start(1, (0,))
    assert (core.counts, core.refused) == ([(0, 0)], 0)
    core.hear(Report(first, wants=1, work=True, done=1))
    assert (core.wave, core.refused) == (1, 1)


@pytest.mark.parametrize("lost", [-1, 1, 3])
def test_a_lost_rank_that_cannot_be_is_left_out_and_the_wave_is_begun_anew(lost: int) -> None:
    core = _running()
    assert core.hear(Report(1, broke=0, lost=(lost,)))[0] == Start(1, (0, 1, 2))
    assert (core.refused, core.gone) == (1, frozenset())


def test_rank_0_can_be_lost_and_has_no_counts_then() -> None:
    core = _running()
    core.hear(Report(0, counts=(2, 2)))
    out = core.hear(Report(1, broke=0, lost=(0,)))
    assert out == [Start(1, (1, 2)), State(1, True, (None, (0, 0), (0, 0)))]
    assert (core.counts[0], core.refused) == ((0, 0), 0)


def test_with_its_last_replica_a_wave_is_over_and_the_next_waits_for_somebody() -> None:
    core = _running(1)
    assert core.left(0) == [State(1, False, (None,))]
    assert core.arrived(0)[0] == Start(1, (0,))
