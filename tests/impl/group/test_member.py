"""What a rank makes of what it hears, without any I/O."""

import logging

import pytest

from refengine.errors import GroupClosed, PeerSilent, RankDied
from refengine.group.exit_reason import ExitReason
from refengine.group.member import BarrierTicket, Inbox, Member
from refengine.group.protocol import Channel, Kind, pack, pack_bodies, pack_ranks, unpack
from refengine.transport import Gone


def gone(rank: int, kind: str = "died", gathers: int = 0) -> bytes:
    return pack(Kind.GONE, rank, body=ExitReason(rank, Gone(kind), gathers).pack())


def test_letters_and_broadcasts_of_each_rank_are_kept_apart_in_order():
    member = Member(0, 3)
    for source, body in ((1, b"a"), (2, b"b"), (1, b"c")):
        member.hear(pack(Kind.LETTER, source, body=body))
    member.hear(pack(Kind.CAST, 1, body=b"d"))
    assert [bytes(b) for b in member.inboxes[Kind.LETTER, 1].bodies] == [b"a", b"c"]
    assert [bytes(b) for b in member.inboxes[Kind.CAST, 1].bodies] == [b"d"]


def test_what_is_no_frame_is_dropped_alone():
    member = Member(0, 3)
    for bad in (b"", b"\0" * 17, b"\xff" * 40, pack(Kind.LETTER, 9), pack(Kind.GONE, 1)):
        assert member.hear(bad) == []
    member.hear(pack(Kind.LETTER, 1, body=b"good"))
    assert member.inboxes[Kind.LETTER, 1].any()


def test_an_end_concerns_those_who_need_that_rank():
    member = Member(0, 4)
    member.hear(gone(2))
    assert isinstance(member.without(2, "x"), RankDied)
    assert "rank 2" in str(member.without(2, "x"))
    assert member.without(3, "x") is None
    assert member.unable_to_send(2, "x")
    assert member.unable_to_send(3, "x") is None
    assert member.unable_to_send(None, "x") is None
    assert isinstance(member.unable_to_meet(Channel.BARRIER, "x"), RankDied)


def test_how_it_ended_decides_the_error():
    kinds = (("died", RankDied), ("closed", GroupClosed), ("silent", PeerSilent))
    for rank, (kind, error) in enumerate(kinds, 1):
        member = Member(0, 4)
        member.hear(gone(rank, kind))
        assert type(member.without(rank, "x")) is error
        assert f"rank {rank}" in str(member.without(rank, "x"))


def test_a_gather_that_the_dead_rank_gave_to_is_still_waited_for():
    member = Member(0, 3)
    member.hear(gone(2, gathers=1))
    assert member.unable_to_meet(Channel.GATHER, "x") is None
    member.tickets[Channel.GATHER].number = 1
    assert member.unable_to_meet(Channel.GATHER, "x")


def test_without_the_host_nothing_goes_on():
    member = Member(1, 3)
    member.host_gone(Gone("died"))
    for error in (
        member.without(0, "x"),
        member.without(2, "x"),
        member.unable_to_send(2, "x"),
        member.unable_to_meet(Channel.GATHER, "x"),
    ):
        assert isinstance(error, RankDied)
        assert error.rank == 0


def test_a_leaving_host_is_answered_and_still_passes_on_what_others_sent():
    member = Member(1, 3)
    (answer,) = member.hear(pack(Kind.LEAVING, 0))
    assert unpack(answer)[:2] == (Kind.SEEN, 1)
    assert isinstance(member.unable_to_send(2, "x"), GroupClosed)
    assert isinstance(member.without(0, "x"), GroupClosed)
    assert member.without(2, "x") is None
    member.host_gone(Gone("closed"))
    assert isinstance(member.without(2, "x"), GroupClosed)


def test_absent_are_those_who_never_came_or_else_those_who_gave_up():
    def who(there: list[int], gave_up: list[int]) -> bytes:
        body = pack_bodies([pack_ranks(there), pack_ranks(gave_up)])
        return pack(Kind.WHO, 0, Channel.BARRIER, 0, body)

    member = Member(1, 4)
    ticket = member.tickets[Channel.BARRIER]
    assert ticket.absent(4, 1) == [0, 2, 3]
    member.hear(who([0, 1], [2]))
    assert ticket.absent(4, 1) == [3]
    member.hear(who([1], [0, 2, 3]))
    assert ticket.absent(4, 1) == [0, 2, 3]


def test_an_inbox_counts_what_was_taken_from_it():
    inbox = Inbox()
    assert (inbox.any(), inbox.taken) == (False, 0)
    bodies = [memoryview(each) for each in (b"a", b"b", b"c")]
    inbox.bodies.extend(bodies)
    assert inbox.any() is True
    inbox.drop()
    inbox.drop()
    assert (inbox.taken, list(inbox.bodies)) == (2, bodies[2:])


def test_what_is_restored_is_first_again_and_only_once():
    inbox = Inbox()
    first, second = memoryview(b"same"), memoryview(b"same")
    inbox.bodies.extend([first, second])
    inbox.restore(first)  # it was not dropped yet
    assert (inbox.taken, len(inbox.bodies)) == (0, 2)
    inbox.drop()
    inbox.restore(first)  # the next one is like it, and yet another
    assert inbox.taken == 0
    assert [id(body) for body in inbox.bodies] == [id(first), id(second)]
    inbox.drop()
    inbox.drop()
    inbox.restore(second)
    assert (inbox.taken, list(inbox.bodies)) == (1, [second])


def test_an_attendance_has_a_result_of_its_own_number_alone():
    ticket = BarrierTicket()
    assert (ticket.number, ticket.is_met(), ticket.result()) == (0, False, None)
    for number in (1, 0):
        met = ticket.met = unpack(pack(Kind.MET, 0, Channel.GATHER, number))
        assert ticket.is_met() is (number == 0)
        assert ticket.result() is (met if number == 0 else None)


def test_a_finished_attendance_goes_on_and_a_resumed_one_goes_back():
    ticket = BarrierTicket(number=4)
    met = ticket.met = unpack(pack(Kind.MET, 0, Channel.GATHER, 4))
    ticket.finish()
    assert (ticket.number, ticket.met) == (5, None)
    ticket.resume(met)
    assert ticket.number == 4
    assert ticket.result() is met


def test_what_was_said_of_another_meeting_does_not_count():
    body = pack_bodies([pack_ranks([0, 1, 2]), pack_ranks([])])
    for number in (0, 2):
        who = unpack(pack(Kind.WHO, 0, Channel.BARRIER, number, body))
        assert BarrierTicket(number=1, who=who).absent(4, 1) == [0, 2, 3]
    who = unpack(pack(Kind.WHO, 0, Channel.BARRIER, 1, body))
    assert BarrierTicket(number=1, who=who).absent(4, 1) == [3]


def test_a_channel_hears_of_its_own_meetings_alone():
    for channel in Channel:
        member = Member(0, 2)
        member.hear(pack(Kind.MET, 0, channel, 0))
        member.hear(pack(Kind.WHO, 0, channel, 0))
        for each, ticket in member.tickets.items():
            assert ticket.is_met() is (each is channel)
            assert (ticket.who is not None) is (each is channel)


def test_news_of_any_kind_wakes_those_who_wait():
    member = Member(1, 2)
    for news in (
        lambda: member.hear(pack(Kind.LETTER, 0)),
        lambda: member.hear(b"no frame"),
        lambda: member.host_gone(Gone("died")),
        lambda: member.refuse(GroupClosed("x")),
    ):
        waker = member.wakers.add()
        news()
        assert waker._lock.acquire(timeout=0)


def test_a_frame_of_a_rank_that_is_none_is_dropped_and_logged(caplog: pytest.LogCaptureFixture):
    member = Member(0, 3)
    with caplog.at_level(logging.WARNING):
        for source in (3, 4):
            assert member.hear(gone(source)) == []
        assert member.hear(gone(2)) == []
    assert list(member.exits) == [2]
    assert "there is no rank 3" in caplog.text
    assert len(caplog.records) == 2


def test_a_hosts_end_is_of_rank_0_and_does_not_replace_what_it_said_of_itself():
    member = Member(1, 3)
    member.host_gone(Gone("died", pid=4))
    end = ExitReason(0, Gone("died", pid=4))
    assert (member.host_end, member.exits) == (end, {0: end})
    member = Member(1, 3)
    member.hear(pack(Kind.LEAVING, 0))
    member.host_gone(Gone("died", pid=4))
    assert (member.host_end, member.exits) == (end, {0: ExitReason(0, Gone("closed"))})


def test_each_death_is_asked_whether_the_gather_needs_that_rank():
    member = Member(0, 4)
    member.hear(gone(1, gathers=1))
    assert member.unable_to_meet(Channel.GATHER, "x") is None
    assert isinstance(member.unable_to_meet(Channel.BARRIER, "x"), RankDied)
    member.hear(gone(2, gathers=0))
    error = member.unable_to_meet(Channel.GATHER, "x")
    assert isinstance(error, RankDied)
    assert (error.rank, error.waiting_for) == (2, "x")


def test_no_gather_comes_off_without_the_host():
    member = Member(1, 3)
    member.hear(gone(2, gathers=5))
    assert member.unable_to_meet(Channel.GATHER, "x") is None
    member.host_gone(Gone("closed"))
    assert member.unable_to_meet(Channel.GATHER, "x")
