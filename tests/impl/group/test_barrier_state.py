"""The host's side of barriers and gathers, without any I/O (G2, G3, X1)."""

import pytest

from refengine.group.barrier import BarrierState, Post
from refengine.group.protocol import Channel, Kind, unpack, unpack_bodies, unpack_ranks

EMPTY = memoryview(b"")


def barrier(channel: Channel = Channel.BARRIER, n: int = 3) -> BarrierState:
    return BarrierState(channel, n)


def kinds(posts: list[Post]) -> list[tuple[int, Kind]]:
    return [(rank, unpack(frame).kind) for rank, frame in posts]


def who(posts: list[Post]) -> tuple[list[int], list[int]]:
    """(there, gave up) of the one answer."""
    ((_, frame),) = posts
    there, gave_up = unpack_bodies(unpack(frame).body)
    return unpack_ranks(there), unpack_ranks(gave_up)


def test_all_are_released_with_the_last_to_come():
    m = barrier()
    assert m.come(2, 0, EMPTY) == m.come(0, 0, EMPTY) == []
    assert kinds(m.come(1, 0, EMPTY)) == [(rank, Kind.MET) for rank in range(3)]
    assert m.number == 1


def test_the_contributions_are_told_in_rank_order():
    m = barrier(Channel.GATHER)
    m.come(2, 0, memoryview(b"two"))
    m.come(0, 0, memoryview(b""))
    _, frame = m.come(1, 0, memoryview(b"one"))[0]
    assert [bytes(body) for body in unpack_bodies(unpack(frame).body)] == [b"", b"one", b"two"]


def test_who_withdrew_is_waited_for():
    m = barrier()
    m.come(0, 0, EMPTY)
    m.withdraw(0, 0)
    m.come(1, 0, EMPTY)
    assert m.come(2, 0, EMPTY) == []
    assert len(m.come(0, 0, EMPTY)) == 3


def test_who_withdrew_and_came_again_gives_what_it_brought_last():
    m = barrier(Channel.GATHER, 2)
    m.come(0, 0, memoryview(b"old"))
    m.withdraw(0, 0)
    m.come(0, 0, memoryview(b"new"))
    _, frame = m.come(1, 0, EMPTY)[0]
    assert bytes(unpack_bodies(unpack(frame).body)[0]) == b"new"


def test_a_withdrawal_that_crossed_the_release_changes_nothing():
    m = barrier(n=2)
    m.come(0, 0, EMPTY)
    assert m.come(1, 0, EMPTY)
    assert m.withdraw(1, 0) == m.come(1, 0, EMPTY) == m.ask(1, 0) == []
    assert not m.came


def test_who_asks_is_told_now_and_at_each_change():
    m = barrier(n=4)
    m.come(0, 0, EMPTY)
    assert who(m.ask(0, 0)) == ([0], [])
    assert who(m.come(1, 0, EMPTY)) == ([0, 1], [])
    assert who(m.withdraw(1, 0)) == ([0], [1])
    assert kinds(m.come(3, 0, EMPTY)) == [(0, Kind.WHO)]


@pytest.mark.parametrize("channel", Channel)
def test_what_a_rank_gave_before_it_died_counts_in_a_gather_only(channel: Channel):
    m = barrier(channel, 2)
    m.come(1, 0, EMPTY)
    m.leave(1)
    assert bool(m.come(0, 0, EMPTY)) is (channel is Channel.GATHER)


def test_nothing_is_kept_of_a_meeting_that_came_off():
    m = barrier(Channel.GATHER, 2)
    m.ask(0, 0)
    m.come(0, 0, memoryview(b"x"))
    m.withdraw(0, 0)
    m.come(0, 0, memoryview(b"x"))
    m.come(1, 0, memoryview(b"y"))
    assert vars(m) == vars(barrier(Channel.GATHER, 2)) | {"number": 1}


def test_nobody_is_released_while_the_line_of_one_that_came_is_broken():
    m = barrier(n=2)
    m.come(1, 0, EMPTY)
    m.ask(1, 0)
    m.away(1)
    assert all(kind is not Kind.MET for _, kind in kinds(m.come(0, 0, EMPTY)))
    assert who(m.ask(0, 0)) == ([0], [])
    assert kinds(m.back(1)) == [(0, Kind.MET), (1, Kind.MET)]


def test_a_gather_goes_on_though_a_line_is_broken():
    m = barrier(Channel.GATHER, 2)
    m.come(1, 0, EMPTY)
    assert m.away(1) == []
    assert kinds(m.come(0, 0, EMPTY)) == [(0, Kind.MET), (1, Kind.MET)]


def test_what_does_not_concern_the_open_meeting_is_answered_by_nothing():
    for channel in Channel:
        m = barrier(channel)
        for number in (1, -1):
            assert m.come(0, number, EMPTY) == []
            assert m.withdraw(0, number) == []
            assert m.ask(0, number) == []
        assert m.withdraw(0, 0) == []  # it had not come
        assert m.leave(0) == []
        assert m.back(1) == []
        assert vars(m) == vars(barrier(channel))


def test_a_release_tells_channel_and_number_in_the_hosts_name():
    m = barrier(Channel.GATHER, 2)
    for number in range(3):
        m.come(0, number, EMPTY)
        for _, frame in m.come(1, number, EMPTY):
            assert unpack(frame)[:4] == (Kind.MET, 0, Channel.GATHER, number)
    assert m.number == 3


def test_an_answer_tells_channel_and_number_in_the_hosts_name():
    m = barrier(n=2)
    m.come(0, 0, EMPTY)
    m.come(1, 0, EMPTY)
    ((rank, frame),) = m.ask(1, 1)
    assert rank == 1
    assert unpack(frame)[:4] == (Kind.WHO, 0, Channel.BARRIER, 1)


def test_who_withdrew_is_told_nothing_any_more():
    m = barrier()
    m.come(0, 0, EMPTY)
    m.ask(0, 0)
    assert m.withdraw(0, 0) == []
    assert m.come(1, 0, EMPTY) == []


def test_who_came_again_has_not_given_up():
    m = barrier()
    m.come(0, 0, EMPTY)
    m.withdraw(0, 0)
    m.come(0, 0, EMPTY)
    assert who(m.ask(1, 0)) == ([0], [])


@pytest.mark.parametrize("channel", Channel)
def test_of_a_rank_that_is_gone_nothing_is_left_but_its_gift_to_a_gather(channel: Channel):
    m = barrier(channel)
    m.come(1, 0, EMPTY)
    m.withdraw(1, 0)
    m.away(1)
    m.ask(1, 0)
    m.leave(1)
    assert vars(m) == vars(barrier(channel))
    m.come(2, 0, EMPTY)
    m.leave(2)
    assert list(m.came) == ([2] if channel is Channel.GATHER else [])


def test_who_asks_hears_of_a_broken_line_and_of_its_return():
    m = barrier()
    m.come(0, 0, EMPTY)
    m.come(1, 0, EMPTY)
    m.ask(0, 0)
    assert who(m.away(1)) == ([0], [])
    assert who(m.back(1)) == ([0, 1], [])


def test_a_broken_line_of_one_that_did_not_come_holds_a_release_up_too():
    m = barrier(n=2)
    m.away(1)
    m.come(0, 0, EMPTY)
    assert m.come(1, 0, EMPTY) == []
    assert kinds(m.back(1)) == [(0, Kind.MET), (1, Kind.MET)]


def test_nothing_is_told_to_nobody():
    m = barrier()
    assert m.come(0, 0, EMPTY) == m.away(1) == m.back(1) == m.withdraw(0, 0) == []
