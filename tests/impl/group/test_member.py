"""What a rank makes of what it hears, without any I/O."""

from refengine.errors import GroupClosed, PeerSilent, RankDied
from refengine.group.departure import Departure
from refengine.group.frames import Channel, Kind, pack, pack_bodies, pack_ranks, unpack
from refengine.group.member import Member
from refengine.lines import Gone


def gone(rank: int, kind: str = "died", gathers: int = 0) -> bytes:
    return pack(Kind.GONE, rank, body=Departure(rank, Gone(kind), gathers).pack())


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
    member.attendances[Channel.GATHER].number = 1
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
    attendance = member.attendances[Channel.BARRIER]
    assert attendance.absent(4, 1) == [0, 2, 3]
    member.hear(who([0, 1], [2]))
    assert attendance.absent(4, 1) == [3]
    member.hear(who([1], [0, 2, 3]))
    assert attendance.absent(4, 1) == [0, 2, 3]
