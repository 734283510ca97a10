"""What a group makes of its arguments, with links that only note what they are told."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from refengine.base.clock import monotonic
from refengine.base.security import SocketFactory
from refengine.errors import DeadlinePassed, GroupClosed, NotReady
from refengine.group import Group, StoreGroup, group
from refengine.group.call_context import OrphanedGroups
from refengine.group.connection import Link
from refengine.group.exit_reason import ExitReason
from refengine.group.member import Member
from refengine.group.protocol import Channel, Frame, Kind, pack, unpack
from refengine.transport import Gone

from ..roles import until
from .members import KEY


class Noting(Link):
    """Either link: what it was made with, what was posted, how it was closed."""

    def __init__(self, kind: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.kind, self.given, self.named = kind, given, named
        self.address = "tcp://there:1"
        self.posts: list[Frame] = []
        self.closed: list[float] = []
        self.settled: list[float] = []
        self.can_go_back, self.taken_back = True, 0
        self.answer: Callable[[], Any] = lambda: None

    @property
    def member(self) -> Member:
        return next(part for part in self.given if isinstance(part, Member))

    def post(self, frame: bytes | bytearray) -> None:
        self.posts.append(unpack(frame))
        self.answer()

    def reached(self) -> bool:
        return True

    def settle(self, within: float) -> None:
        self.settled.append(within)

    def take_back(self) -> bool:
        self.taken_back += 1
        return self.can_go_back

    def close(self, seconds: float) -> None:
        self.closed.append(seconds)


@pytest.fixture(autouse=True)
def links(monkeypatch: pytest.MonkeyPatch) -> list[Noting]:
    made: list[Noting] = []

    def maker(kind: str) -> Callable[..., Noting]:
        def make(*given: Any, **named: Any) -> Noting:
            made.append(Noting(kind, given, named))
            return made[-1]

        return make

    monkeypatch.setattr(group, "HostServer", maker("host"))
    monkeypatch.setattr(group, "MemberConnection", maker("member"))
    monkeypatch.setattr(group, "_orphaned", OrphanedGroups())
    return made


def a_group(rank: int = 1, n: int = 3, **overrides: Any) -> Group:
    made = Group("there", 1, rank, n, key=KEY, **overrides)
    made._context.ready = True
    return made


@pytest.mark.parametrize(("rank", "kind"), [(0, "host"), (1, "member"), (2, "member")])
def test_rank_0_hosts_and_the_others_join(links: list[Noting], rank: int, kind: str):
    made = a_group(rank)
    (link,) = links
    assert link.kind == kind
    assert (made.rank, made.world_size, made.address) == (rank, 3, "tcp://there:1")
    assert (link.member.rank, link.member.world_size) == (rank, 3)
    assert made._context.link is link


@pytest.mark.parametrize(
    ("host", "bare", "address"),
    [
        ("there", "there", "tcp://there:1"),
        ("::1", "::1", "tcp://[::1]:1"),
        ("[::1]", "::1", "tcp://[::1]:1"),
    ],
)
def test_a_host_is_written_as_an_address_or_bare(
    links: list[Noting], host: str, bare: str, address: str
):
    for rank in (0, 1):
        Group(host, 1, rank, 2, key=KEY)
    assert links[0].given[:2] == (bare, 1)
    assert links[1].given[0] == address


def test_what_is_not_given_is_ten_seconds_real_sockets_and_the_clock(links: list[Noting]):
    a_group()
    named = links[0].named
    assert (named["peer_timeout"], named["clock"]) == (10.0, monotonic)
    assert type(named["sockets"]) is SocketFactory


@pytest.mark.parametrize("rank", [0, 1])
def test_what_tests_bring_is_passed_on(links: list[Noting], rank: int):
    sockets = SocketFactory()
    overrides = {"peer_timeout": 3.0, "clock": lambda: 5.0, "sockets": sockets}
    made = a_group(rank, **overrides)
    assert links[0].named == overrides
    assert made._context.clock is overrides["clock"]


def test_the_defaults_are_those_that_are_told():
    def default(call: Callable[..., Any]) -> Any:
        return inspect.signature(call).parameters["timeout"].default

    for kind in (Group, StoreGroup):
        assert default(kind.barrier) == 30.0
        assert default(kind.close) == 5.0
        for call in (kind.recv_obj, kind.broadcast_obj, kind.all_gather_obj):
            assert default(call) is None
    assert default(Group.create) == default(Group.wait_until_ready) == 300.0
    assert default(StoreGroup) == 300.0


@pytest.mark.parametrize(
    ("port", "rank", "n"),
    [(0, 1, 2), (-1, 0, 2), (-1, 1, 2), (1 << 16, 0, 2), (1, 2, 2), (1, 3, 2), (1, -1, 2)],
)
def test_numbers_out_of_range_are_refused_before_anything_is_made(
    links: list[Noting], port: int, rank: int, n: int
):
    with pytest.raises(ValueError, match=str(rank)):
        Group("there", port, rank, n, key=KEY)
    assert links == []


@pytest.mark.parametrize(
    ("port", "rank", "n"), [(0, 0, 1), (0, 0, 2), (1, 0, 2), (1, 1, 2), ((1 << 16) - 1, 1, 2)]
)
def test_numbers_at_the_edge_are_taken(links: list[Noting], port: int, rank: int, n: int):
    Group("there", port, rank, n, key=KEY)
    assert len(links) == 1


def test_a_letter_names_its_source_and_target(links: list[Noting]):
    a_group().send_obj("x", 2)
    (frame,) = links[0].posts
    assert frame[:4] == (Kind.LETTER, 1, 2, 0)


def test_a_broadcast_names_its_source_and_comes_back_to_it(links: list[Noting]):
    assert a_group().broadcast_obj("x", 1) == "x"
    (frame,) = links[0].posts
    assert frame[:4] == (Kind.CAST, 1, 0, 0)


@pytest.mark.parametrize("rank", [-1, 1, 3])
def test_only_another_rank_can_be_sent_to_or_received_from(links: list[Noting], rank: int):
    made = a_group()
    calls = [lambda: made.send_obj("x", rank), lambda: made.recv_obj(rank, 0)]
    if rank != made.rank:
        calls.append(lambda: made.broadcast_obj("x", rank, 0))
    for call in calls:
        with pytest.raises(ValueError, match=f"{rank} is no other rank: this is 1 of 0 to 2"):
            call()
    assert links[0].posts == []


def test_ranks_at_the_edge_can_be_sent_to(links: list[Noting]):
    made = a_group()
    for rank in (0, 2):
        made.send_obj("x", rank)
        with pytest.raises(DeadlinePassed, match=f"an object from rank {rank}"):
            made.recv_obj(rank, 0)
        with pytest.raises(DeadlinePassed, match=f"a broadcast from rank {rank}"):
            made.broadcast_obj(None, rank, 0)
    assert [frame.target for frame in links[0].posts] == [0, 2]


def test_nothing_is_sent_before_the_group_is_ready(links: list[Noting]):
    made = a_group()
    made._context.ready = False
    for call, name in (
        (lambda: made.send_obj("x", 2), "send_obj"),
        (lambda: made.broadcast_obj("x", 1), "broadcast_obj"),
    ):
        with pytest.raises(NotReady, match=name):
            call()
    assert links[0].posts == []


def gone(link: Noting, rank: int) -> None:
    told = ExitReason(rank, Gone("closed")).pack()
    link.member.hear(pack(Kind.GONE, rank, body=told))


def test_a_send_to_a_rank_that_is_gone_is_refused_and_others_get_theirs(links: list[Noting]):
    made = a_group()
    gone(links[0], 2)
    with pytest.raises(GroupClosed, match="rank 2"):
        made.send_obj("x", 2)
    assert links[0].posts == []
    made.send_obj("x", 0)
    made.broadcast_obj("x", 1)
    assert len(links[0].posts) == 2


def test_a_host_that_leaves_while_it_is_sent_to_is_told_at_once(links: list[Noting]):
    made = a_group()
    links[0].answer = lambda: links[0].member.hear(pack(Kind.LEAVING, 0))
    with pytest.raises(GroupClosed, match="rank 0"):
        made.send_obj("x", 2)


def test_a_group_becomes_ready_once_and_stays_so(links: list[Noting]):
    made = a_group()
    made._context.ready = False
    link = links[0]
    link.answer = lambda: link.member.hear(pack(Kind.MET, 0, Channel.START, 0))
    for _ in range(2):
        made.wait_until_ready(0)
    assert [frame[:4] for frame in link.posts] == [(Kind.COME, 1, Channel.START, 0)]
    made.send_obj("x", 2)


def test_a_group_that_cannot_be_joined_is_as_if_nobody_had_tried(links: list[Noting]):
    for turn in range(2):
        with pytest.raises(DeadlinePassed):
            Group.create("there", 1, 1, 2, key=KEY, timeout=0)
        assert (links[turn].taken_back, links[turn].closed) == (1, [])
    assert len(links) == 2


def too_late(links: list[Noting], peer_timeout: float) -> None:
    """A `create` of rank 0 that raises when the others have been let in."""
    with pytest.raises(DeadlinePassed):
        create(links, peer_timeout)


def create(links: list[Noting], peer_timeout: float, port: int = 1) -> Group:
    group.HostServer = late_maker(links)
    return Group.create("there", port, 0, 2, key=KEY, timeout=0, peer_timeout=peer_timeout)


def late_maker(links: list[Noting]) -> Callable[..., Noting]:
    def make(*given: Any, **named: Any) -> Noting:
        links.append(Noting("host", given, named))
        links[-1].can_go_back = False
        return links[-1]

    return make


def test_a_host_that_cannot_go_back_stands_until_it_is_asked_for_again(links: list[Noting]):
    too_late(links, 60.0)
    too_late(links, 60.0)
    assert len(links) == 1
    link = links[0]
    link.answer = lambda: link.member.hear(pack(Kind.MET, 0, Channel.START, 0))
    made = create(links, 60.0)
    assert (made._context.link, made._context.ready, link.closed) == (link, True, [])
    assert made._finalizer.still_active()
    with pytest.raises(DeadlinePassed):
        create(links, 0.01)
    assert len(links) == 2  # that one was given


def test_a_group_is_given_only_to_who_asks_for_the_same_place(links: list[Noting]):
    too_late(links, 0.2)
    with pytest.raises(DeadlinePassed):
        create(links, 0.2, port=2)
    assert len(links) == 2


def test_a_group_that_nobody_asks_for_is_left_after_the_silence(links: list[Noting]):
    too_late(links, 0.01)
    until(lambda: links[0].closed)
    assert links[0].closed == [0.0]  # it never was ready


def test_a_group_that_was_struck_after_all_had_met_is_ready_when_called_again(links: list[Noting]):
    made = a_group()
    made._context.ready = False
    made._context.member.tickets[Channel.START].number = 1
    made.wait_until_ready(0)
    assert (made._context.ready, links[0].posts, links[0].settled) == (True, [], [1.0])


def test_one_that_was_left_is_not_left_again_at_exit(links: list[Noting]):
    with a_group() as made:
        assert isinstance(made, Group)
    assert links[0].closed == [5.0]
    assert not made._finalizer.still_active()
    other = a_group()
    other.close(1.5)
    assert links[1].closed == [1.5]


def test_one_that_is_dropped_has_two_seconds_to_hand_over(links: list[Noting]):
    made = a_group()
    assert made._finalizer.still_active()
    del made
    assert links[0].closed == [2.0]


def test_at_exit_groups_are_left_before_what_they_may_need():
    assert "exitpriority=20" in repr(a_group()._finalizer)
