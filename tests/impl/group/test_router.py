"""What the host passes on, to whom, and what it keeps (G1, G2, G4)."""

import logging

import pytest

from refengine.group.barrier import Post
from refengine.group.exit_reason import ExitReason
from refengine.group.host import Router
from refengine.group.protocol import Channel, Kind, pack, pack_object, unpack
from refengine.transport import Gone


def told(posts: list[Post]) -> list[tuple[int, Kind]]:
    return [(rank, unpack(frame).kind) for rank, frame in posts]


def test_a_letter_goes_to_its_target_as_it_is():
    letter = pack_object(Kind.LETTER, 1, 2, 0, {"a": 1})
    assert Router(3).hear(1, memoryview(letter)) == [(2, bytes(letter))]


def test_a_broadcast_goes_to_all_others_once():
    cast = pack_object(Kind.CAST, 1, 0, 0, "x")
    posts = Router(4).hear(1, memoryview(cast))
    assert [rank for rank, _ in posts] == [0, 2, 3]
    assert len({id(frame) for _, frame in posts}) == 1


def test_a_frame_in_another_ranks_name_is_dropped():
    assert Router(3).hear(2, pack_object(Kind.LETTER, 1, 0, 0, "forged")) == []


def test_what_is_no_frame_is_dropped_alone():
    router = Router(3)
    for bad in (b"", b"short", b"\xff" * 40, pack(Kind.MET, 1), pack(Kind.COME, 1, 99)):
        assert router.hear(1, bad) == []
    assert router.hear(1, pack_object(Kind.LETTER, 1, 77, 0, "nobody's")) == []
    assert len(router.hear(1, pack_object(Kind.LETTER, 1, 0, 0, "good"))) == 1


def test_an_end_is_told_to_all_others_and_nothing_goes_there_any_more():
    router = Router(4)
    posts = router.gone(2, Gone("died", 1.5, pid=77))
    assert told(posts) == [(rank, Kind.GONE) for rank in (0, 1, 3)]
    frame = unpack(posts[0][1])
    assert ExitReason.unpack(2, frame.body) == ExitReason(2, Gone("died", 1.5, pid=77))
    assert router.hear(1, pack_object(Kind.LETTER, 1, 2, 0, "late")) == []
    assert told(router.hear(1, pack_object(Kind.CAST, 1, 0, 0, "x"))) == [
        (0, Kind.CAST),
        (3, Kind.CAST),
    ]


def test_an_end_says_how_many_gathers_do_not_need_that_rank_any_more():
    router = Router(2)
    for rank in (0, 1):
        router.hear(rank, pack(Kind.COME, rank, Channel.GATHER, 0))
    router.hear(1, pack(Kind.COME, 1, Channel.GATHER, 1))
    ((_, frame),) = router.gone(1, Gone("died"))
    assert ExitReason.unpack(1, unpack(frame).body).gathers == 2


def test_a_leaving_host_is_quiet_once_all_who_came_have_said_so_or_are_gone():
    router = Router(4)
    for rank in (1, 2):
        router.arrived(rank)
    assert told(router.leave()) == [(1, Kind.LEAVING), (2, Kind.LEAVING)]
    assert not router.quiet
    router.gone(1, Gone("died"))
    assert router.hear(2, pack_object(Kind.LETTER, 2, 0, 0, "sent before")) != []
    assert not router.quiet
    router.hear(2, pack(Kind.SEEN, 2))
    assert router.quiet


def test_a_host_keeps_nothing_of_what_it_passed_on():
    router = Router(3)

    def size() -> int:
        barriers = router._barriers.values()
        return sum(len(part) for m in barriers for part in (m._came, m._gave_up, m._curious))

    for i in range(20_000):
        router.hear(1, pack(Kind.LETTER, 1, 2, 0, b"x" * 100))
        if i % 20 == 0:
            for rank in range(3):
                router.hear(rank, pack(Kind.COME, rank, Channel.GATHER, i // 20, b"y" * 100))
        if i % 1000 == 0:
            assert size() == 0
    assert set(vars(router)) == {"_world", "_barriers", "_gone", "_present", "_seen"}
    assert not router._gone | router._present | router._seen


def test_an_arrival_is_answered_by_nothing():
    assert Router(2).arrived(1) == []


def test_a_word_that_the_host_is_done_with_is_answered_by_nothing():
    assert Router(2).hear(1, pack(Kind.SEEN, 1)) == []


@pytest.mark.parametrize("kind", [Kind.WHO, Kind.MET, Kind.GONE, Kind.LEAVING])
def test_what_only_the_host_says_is_dropped_and_logged(
    kind: Kind, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING):
        assert Router(2).hear(1, pack(kind, 1)) == []
    assert f"rank 1 sent what is no frame ({kind.name} is for the host to say)" in caplog.text


def test_a_leaving_host_says_so_in_its_own_name_to_the_living():
    router = Router(3)
    for rank in (1, 2):
        router.arrived(rank)
    router.gone(1, Gone("died"))
    ((rank, frame),) = router.leave()
    assert (rank, unpack(frame)) == (2, (Kind.LEAVING, 0, 0, 0, b""))


def test_quiet_is_whom_nobody_is_waited_for():
    router = Router(3)
    assert router.quiet is True
    router.arrived(1)
    assert router.quiet is False
    router.hear(1, pack(Kind.SEEN, 1))
    router.hear(2, pack(Kind.SEEN, 2))  # it never came
    assert router.quiet is True
    router.arrived(2)
    assert router.quiet is True


def test_an_end_before_any_gather_says_none_and_one_within_counts_only_a_gift():
    for gave in (False, True):
        router = Router(3)
        if gave:
            router.hear(2, pack(Kind.COME, 2, Channel.GATHER, 0))
        posts = router.gone(2, Gone("died"))
        gathers = {ExitReason.unpack(2, unpack(frame).body).gathers for _, frame in posts}
        assert gathers == {int(gave)}


def test_meetings_are_asked_by_their_channel():
    router = Router(2)
    for channel in Channel:
        router.hear(0, pack(Kind.COME, 0, channel, 0))
        posts = router.hear(0, pack(Kind.ASK, 0, channel, 0))
        assert [(rank, unpack(frame)[:3]) for rank, frame in posts] == [(0, (Kind.WHO, 0, channel))]
        (post,) = router.hear(0, pack(Kind.WITHDRAW, 0, channel, 0)) or [None]
        assert post is None
        posts = router.hear(1, pack(Kind.COME, 1, channel, 0))
        assert posts == []
        assert told(router.hear(0, pack(Kind.COME, 0, channel, 0))) == [
            (0, Kind.MET),
            (1, Kind.MET),
        ]


def test_a_broken_line_holds_barriers_up_and_not_gathers():
    for channel in Channel:
        router = Router(2)
        router.hear(1, pack(Kind.COME, 1, channel, 0))
        assert router.broken(1) == []
        posts = router.hear(0, pack(Kind.COME, 0, channel, 0))
        posts += [] if channel is Channel.GATHER else router.back(1)
        assert told(posts) == [(0, Kind.MET), (1, Kind.MET)]


def test_who_asked_hears_of_a_line_that_breaks():
    router = Router(2)
    for rank in (0, 1):
        router.hear(rank, pack(Kind.ASK, rank, Channel.BARRIER, 0))
    assert told(router.broken(1)) == [(0, Kind.WHO), (1, Kind.WHO)]


def test_the_dead_release_nobody_from_a_barrier():
    router = Router(2)
    router.hear(1, pack(Kind.COME, 1, Channel.BARRIER, 0))
    router.gone(1, Gone("died"))
    assert router.hear(0, pack(Kind.COME, 0, Channel.BARRIER, 0)) == []


def test_bytes_pass_as_they_are_and_a_view_is_copied_before_it_is_kept():
    frame = pack(Kind.LETTER, 1, 0, 0, b"x")
    assert Router(2).hear(1, frame)[0][1] is frame
    owner = bytearray(frame)
    ((_, passed),) = Router(2).hear(1, memoryview(owner))
    owner[-1] = 0
    assert passed == frame


def test_a_group_is_whole_once_all_have_come_and_stays_so():
    router = Router(2)
    router.hear(1, pack(Kind.COME, 1, Channel.START, 0))
    assert not router.whole
    router.hear(0, pack(Kind.COME, 0, Channel.START, 0))
    assert router.whole
    router.unsaid(1)
    assert router.whole


def test_a_coming_that_is_taken_back_is_no_end_and_can_be_repeated():
    router = Router(3)
    for rank in (0, 1):
        router.arrived(rank)
        router.hear(rank, pack(Kind.COME, rank, Channel.START, 0))
    router.hear(0, pack(Kind.ASK, 0, Channel.START, 0))
    assert told(router.unsaid(1)) == [(0, Kind.WHO)]
    assert router.hear(2, pack(Kind.COME, 2, Channel.START, 0)) != []  # only the curious one hears
    posts = router.hear(1, pack(Kind.COME, 1, Channel.START, 0))
    assert told(posts) == [(rank, Kind.MET) for rank in range(3)]


def test_who_took_its_coming_back_is_not_told_of_a_leaving_host_unless_all_had_come():
    for whole in (False, True):
        router = Router(2)
        for rank in (0, 1):
            router.hear(rank, pack(Kind.COME, rank, Channel.START, 0)) if whole else None
        router.arrived(1)
        router.hear(1, pack(Kind.SEEN, 1))
        router.unsaid(1)
        assert told(router.leave()) == ([(1, Kind.LEAVING)] if whole else [])
        assert router.quiet is not whole


def test_who_took_its_coming_back_does_not_hold_a_barrier_up_for_its_line():
    router = Router(2)
    router.broken(1)
    router.unsaid(1)
    router.hear(1, pack(Kind.COME, 1, Channel.BARRIER, 0))
    assert told(router.hear(0, pack(Kind.COME, 0, Channel.BARRIER, 0))) != []
