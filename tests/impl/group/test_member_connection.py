"""A member's connection to its host, with a spoke that only notes what it is told."""

from typing import Any

import pytest

from refengine.errors import RankRefused
from refengine.group import connection as connection_module
from refengine.group.connection import MemberConnection
from refengine.group.member import Member
from refengine.group.protocol import Kind, pack, unpack
from refengine.transport import Gone


class Spoke:
    def __init__(self, *given: Any, **named: Any) -> None:
        self.given, self.named = given, named
        self.posts: list[tuple[int, Kind]] = []
        self.closed: list[float] = []

    def post(self, rank: int, frame: bytes | bytearray) -> None:
        self.posts.append((rank, unpack(frame).kind))

    def close(self, seconds: float) -> None:
        self.closed.append(seconds)

    def take_back(self) -> None:
        self.closed.append(-1.0)

    def settle(self, within: float) -> None:
        self.settled = within


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(connection_module, "Client", Spoke)
    keys: Any = "keys"
    sockets: Any = "sockets"
    clock = lambda: 1.0  # noqa: E731  one object, to compare
    link: Any = MemberConnection(
        "tcp://there:1", keys, Member(2, 3), sockets=sockets, clock=clock, peer_timeout=7.0
    )
    assert link._spoke.given == ("tcp://there:1", 2, "keys", link)
    assert link._spoke.named == {
        "sockets": "sockets",
        "clock": clock,
        "peer_timeout": 7.0,
        "unsaid": link.unsaid,
    }
    return link


def test_frames_go_to_the_host(connection: Any):
    connection.post(pack(Kind.SEEN, 2))
    assert connection._spoke.posts == [(0, Kind.SEEN)]


def test_the_host_is_reached_once_it_has_welcomed_us(connection: Any):
    assert connection.address == "tcp://there:1"
    assert connection.reached() is False
    connection.arrived(0)
    assert connection.reached() is True
    connection.unsaid(0)
    assert connection.reached() is False


def test_what_the_host_says_is_heard_and_answered(connection: Any):
    connection.message(0, memoryview(pack(Kind.LEAVING, 0)))
    assert 0 in connection._member.exits
    assert connection._spoke.posts == [(0, Kind.SEEN)]


def test_an_answer_waits_until_the_spoke_is_known(connection: Any):
    class Made:
        def wait(self, seconds: float) -> None:
            assert seconds == 10
            assert connection._spoke.posts == []

    assert connection._made.is_set()
    connection._made = Made()
    connection.message(0, memoryview(pack(Kind.LEAVING, 0)))
    assert connection._spoke.posts == [(0, Kind.SEEN)]


def test_the_hosts_end_and_a_refusal_reach_the_member(connection: Any):
    connection.gone(0, Gone("silent", 3.0))
    assert connection._member.host_end.how == Gone("silent", 3.0)
    connection.refused(2, "taken")
    assert isinstance(connection._member.refusal, RankRefused)
    assert connection._member.refusal.facts == (2, "taken", "group")


def test_a_close_is_passed_on_with_its_time(connection: Any):
    connection.close(1.5)
    assert connection._spoke.closed == [1.5]


def test_a_coming_is_taken_back_or_stands_by_the_line(connection: Any):
    connection.settle(0.5)
    assert connection._spoke.settled == 0.5
    assert connection.take_back() is True
    assert connection._spoke.closed == [-1.0]
