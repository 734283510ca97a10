"""The all-reduce over a wave: all hear the same of a step, or soon who is missing."""

import math

import pytest

from refengine.engine.core.wave_allreduce import Agreed, Broken, WaveAllReduce
from refengine.engine.protocol import Vote


def agreement(rank=0, members=(0, 1, 2), life=1, era=1, wave=5, lives=(1, 1, 1)):
    made = WaveAllReduce(rank, life, peer_timeout=5.0)
    made.peers_changed(dict(enumerate(lives)))
    made.begin(era, wave, members)
    return made


def vote(rank, step=0, unfinished=False, regroup=False, *, era=1, wave=5, life=1):
    return Vote(era, wave, step, rank, life, unfinished, regroup)


def test_nothing_is_known_before_this_replica_has_voted():
    made = agreement(members=(0, 1))
    made.hear(vote(1))
    assert made.verdict(0.0) is None
    assert (made.has_voted, made.due()) == (False, math.inf)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_all_together_say_whether_anybody_is_unfinished(own, first, second):
    made = agreement()
    assert made.cast(own, False, 10.0) == vote(0, 0, own)
    made.hear(vote(1, 0, first))
    assert made.verdict(10.0) is None
    assert made.missing() == (2,)
    made.hear(vote(2, 0, second))
    assert made.verdict(10.0) == Agreed(own or first or second, regroup=False)


@pytest.mark.parametrize("voter", [0, 1, 2])
def test_all_hear_that_one_asks_to_regroup(voter):
    made = agreement()
    made.cast(False, voter == 0, 0.0)
    made.hear(vote(1, regroup=voter == 1))
    made.hear(vote(2, regroup=voter == 2))
    assert made.verdict(0.0) == Agreed(False, regroup=True)


def test_the_next_step_takes_votes_that_came_early():
    made = agreement(members=(0, 1))
    made.hear(vote(1, 0))
    made.hear(vote(1, 1, unfinished=True))
    made.cast(False, False, 0.0)
    assert made.verdict(0.0) == Agreed(False, False)
    assert not made.has_voted
    assert made.cast(False, False, 0.0).step == 1
    assert made.verdict(0.0) == Agreed(True, False)


def test_a_wave_of_one_agrees_with_itself():
    made = agreement(members=(0,))
    made.cast(True, False, 0.0)
    assert made.missing() == ()
    assert made.verdict(0.0) == Agreed(True, False)


def test_votes_that_came_before_the_wave_count_in_it():
    made = agreement(members=(0, 1))
    made.hear(vote(1, wave=6, unfinished=True))
    made.begin(1, 6, (0, 1))
    made.cast(False, False, 0.0)
    assert made.verdict(0.0) == Agreed(True, False)


@pytest.mark.parametrize("old", [vote(1, wave=4), vote(1, era=0), vote(1, era=0, wave=9)])
def test_votes_of_what_is_over_count_for_nothing(old):
    made = agreement(members=(0, 1))
    made.cast(False, False, 0.0)
    made.hear(old)
    assert made.verdict(4.9) is None
    assert made.missing() == (1,)


def test_whoever_is_silent_is_lost_when_patience_ends():
    made = agreement()
    made.cast(False, False, 10.0)
    made.hear(vote(2))
    assert made.due() == 15.0
    assert made.verdict(14.99) is None
    assert made.verdict(15.0) == Broken((1,))


def test_whoever_the_roster_drops_is_lost_at_once_unless_it_has_voted():
    made = agreement()
    made.cast(False, False, 0.0)
    made.hear(vote(1))
    made.peers_changed({0: 1})
    assert made.verdict(0.0) == Broken((2,))


def test_a_new_process_in_the_place_of_a_member_is_not_that_member():
    made = agreement(members=(0, 1))
    made.cast(False, False, 0.0)
    made.peers_changed({0: 1, 1: 2})
    assert made.verdict(0.0) == Broken((1,))


def test_a_newcomer_that_the_roster_does_not_know_yet_is_waited_for():
    made = agreement(members=(0, 1), lives=(1,))
    made.cast(False, False, 0.0)
    assert made.verdict(0.0) is None
    made.peers_changed({0: 1, 1: 2})
    assert made.verdict(0.0) is None
    made.hear(vote(1, life=2))
    assert made.verdict(0.0) == Agreed(False, False)


def test_the_first_vote_in_a_wave_tells_which_process_is_in_it():
    made = agreement(members=(0, 1))  # the roster is behind: life 1
    made.hear(vote(1, life=2))
    made.cast(False, False, 0.0)
    assert made.verdict(0.0) == Agreed(False, False)
    made.peers_changed({0: 1, 1: 2})
    made.cast(False, False, 0.0)
    assert made.verdict(0.0) is None
    made.peers_changed({0: 1})
    assert made.verdict(0.0) == Broken((1,))


def test_a_vote_that_came_before_the_wave_tells_so_too():
    made = agreement(members=(0, 1))  # the roster is behind: life 1
    made.hear(vote(1, wave=6, life=2))
    made.begin(1, 6, (0, 1))
    made.cast(False, False, 0.0)
    assert made.verdict(0.0) == Agreed(False, False)
    made.cast(False, False, 0.0)
    made.peers_changed({0: 1, 1: 2})
    assert made.verdict(0.0) is None


def test_a_process_that_begins_the_wave_again_is_another_one():
    made = agreement(members=(0, 1))
    made.hear(vote(1))
    made.cast(True, False, 0.0)
    assert made.verdict(0.0) == Agreed(True, False)
    made.cast(True, False, 0.0)
    made.hear(vote(1, 0, life=2))
    assert made.verdict(0.0) == Broken((1,))


@pytest.mark.parametrize("later", [vote(1, 1), vote(1, wave=6), vote(1, era=2, wave=0)])
def test_whoever_votes_on_what_comes_later_has_left_this_step(later):
    made = agreement(members=(0, 1))
    made.cast(False, False, 0.0)
    made.hear(later)
    assert made.verdict(0.0) == Broken((1,))


def test_a_member_that_has_voted_may_be_ahead():
    made = agreement()
    made.cast(False, False, 0.0)
    made.hear(vote(1))
    made.hear(vote(1, wave=6))
    assert made.verdict(0.0) is None
    made.hear(vote(2))
    assert made.verdict(0.0) == Agreed(False, False)


def test_no_more_than_a_few_early_votes_are_kept():
    made = agreement(members=(0, 1))
    for step in range(100):
        made.hear(vote(1, step))
    assert sum(map(len, made._votes.values())) == 4


def test_votes_on_what_is_over_take_no_place():
    made = agreement(members=(0, 1))
    for step in range(4):
        made.hear(vote(1, step))
    made.begin(1, 6, (0, 1))
    made.hear(vote(1, wave=6))
    made.cast(False, False, 0.0)
    assert made.verdict(0.0) == Agreed(False, False)


def test_beginning_a_wave_forgets_the_one_before():
    made = agreement(members=(0, 1))
    made.hear(vote(1))
    made.cast(True, False, 0.0)
    made.begin(1, 6, (0, 1))
    assert not made.has_voted
    assert made.cast(False, False, 0.0) == vote(0, wave=6)
    assert made.missing() == (1,)
