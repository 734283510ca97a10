"""The host's side around its router, with a hub that only notes what it is told (G1, G4)."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from refengine.group import host as host_module
from refengine.group.exit_reason import ExitReason
from refengine.group.host import HostServer
from refengine.group.member import Member
from refengine.group.protocol import Channel, Kind, pack, pack_object, unpack
from refengine.transport import Gone

from ..roles import until


class Hub:
    """Notes what is posted, and how it is closed."""

    address = "tcp://here:1"

    def __init__(self, *given: Any, **named: Any) -> None:
        self.given, self.named = given, named
        self.posts: list[tuple[int, Kind]] = []
        self.closed: list[float] = []
        self.settled = 0

    def post(self, rank: int, frame: bytes | bytearray) -> None:
        self.posts.append((rank, unpack(frame).kind))

    def close(self, seconds: float) -> None:
        self.closed.append(seconds)

    def take_back(self) -> None:
        self.closed.append(-1.0)

    def settle(self) -> None:
        self.settled += 1


class Host(HostServer):
    """Rank 0 of 3 at time 100, until `now` is set."""

    now = 100.0

    def __init__(self) -> None:
        self.member = Member(0, 3)
        super().__init__(
            "here",
            1,
            "keys",
            self.member,
            sockets="sockets",
            clock=lambda: self.now,
            peer_timeout=7.0,
        )
        self.hub: Any = self._hub

    def settled(self) -> list[tuple[int, Kind]]:
        """What the hub was told, once all that was asked for is done."""
        done = threading.Event()
        self._work.put(lambda: done.set() or [])
        assert done.wait(10), "the host's thread does nothing"
        return self.hub.posts


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(host_module, "Server", Hub)
    host = Host()
    yield host
    host._work.put(None)
    host._thread.join(10)
    assert not host._thread.is_alive()


def letter(source: int, target: int, obj: object = "x") -> bytearray:
    return pack_object(Kind.LETTER, source, target, 0, obj)


def test_the_hub_has_lines_to_all_others_and_what_the_group_was_given(host: Host):
    where, port, ranks, keys, listener = host.hub.given
    assert (where, port, list(ranks), keys, listener) == ("here", 1, [1, 2], "keys", host)
    named = {"sockets": "sockets", "clock": host._clock, "peer_timeout": 7.0, "unsaid": host.unsaid}
    assert host.hub.named == named
    assert host.address == "tcp://here:1"
    assert host.reached()
    assert host._thread.daemon


def test_a_frame_of_our_own_member_goes_out(host: Host):
    host.post(letter(0, 2))
    assert host.settled() == [(2, Kind.LETTER)]


def test_a_frame_for_our_own_member_is_heard_here_and_goes_nowhere(host: Host):
    host.message(1, memoryview(letter(1, 0)))
    assert host.settled() == []
    assert len(host.member.inboxes[Kind.LETTER, 1].bodies) == 1


def test_a_member_that_broke_is_not_there_until_it_is_back(host: Host):
    for rank in (0, 1, 2):
        if rank == 2:
            host.broken(1)
        frame = pack(Kind.COME, rank, Channel.BARRIER)
        (host.message(rank, memoryview(frame)) if rank else host.post(frame))
    assert host.settled() == []
    host.back(1)
    assert host.settled() == [(1, Kind.MET), (2, Kind.MET)]
    assert host.member.tickets[Channel.BARRIER].is_met()


def test_an_end_is_told_to_the_others_and_to_us(host: Host):
    how = Gone("died", pid=9)
    host.gone(1, how)
    assert host.settled() == [(2, Kind.GONE)]
    assert host.member.exits == {1: ExitReason(1, how)}


def test_a_refusal_is_logged(host: Host, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        host.refused(5, "there is none")
    assert "rank 5 was refused: there is none" in caplog.text


def test_a_step_that_fails_is_logged_and_the_next_is_done(
    host: Host, caplog: pytest.LogCaptureFixture
):
    host.hub.post = lambda *_: 1 // 0
    host.post(letter(0, 1))
    with caplog.at_level(logging.ERROR):
        host.settled()
    assert "a frame could not be passed on" in caplog.text
    del host.hub.post
    host.post(letter(0, 1))
    assert host.settled() == [(1, Kind.LETTER)]


class Quiet(threading.Event):
    """Notes how long somebody would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return super().wait(10) if timeout == 4.5 else True


def closing(host: Host, seconds: float) -> threading.Thread:
    thread = threading.Thread(target=host.close, args=(seconds,), daemon=True)
    thread.start()
    return thread


def test_a_close_lingers_until_all_who_came_send_no_more(host: Host):
    host._quiet = quiet = Quiet()
    for rank in (1, 2):
        host.arrived(rank)
    host.settled()
    thread = closing(host, 6.0)
    until(lambda: len(host.hub.posts) == 2)
    assert host.settled() == [(1, Kind.LEAVING), (2, Kind.LEAVING)]
    host.message(1, memoryview(pack(Kind.SEEN, 1)))
    host.settled()
    assert not quiet.is_set()
    assert host.hub.closed == []
    host.message(2, memoryview(pack(Kind.SEEN, 2)))
    thread.join(10)
    assert not thread.is_alive()
    assert quiet.waits == [4.5]  # three quarters: the rest is for the hub
    assert host.hub.closed == [6.0]
    assert not host._thread.is_alive()


def test_nobody_is_quiet_before_the_host_leaves(host: Host):
    host.settled()
    assert not host._quiet.is_set()


def test_a_close_gives_the_hub_what_is_left_of_its_time(host: Host):
    def late(_: float | None) -> bool:
        host.now += 2.0
        return True

    host._quiet.wait = late
    host.close(5.0)
    assert host.hub.closed == [3.0]
    host.now += 1
    host.close(1.5)
    assert host.hub.closed == [3.0, 0.0]


def test_a_close_does_not_wait_long_for_its_thread():
    assert host_module._STOPPED == 1.0


def all_come(host: Host, *but: int) -> None:
    for rank in {0, 1, 2} - {*but}:
        frame = pack(Kind.COME, rank, Channel.START)
        (host.message(rank, memoryview(frame)) if rank else host.post(frame))


def test_what_came_is_confirmed_once_all_have_come(host: Host):
    all_come(host, 2)
    host.settle(1.0)
    host._work.put(list)
    host._work.put(list)
    assert (host.settled(), host.hub.settled) == ([], 0)
    all_come(host, 0, 1)
    host.message(1, memoryview(letter(1, 2)))
    assert host.settled()[-1:] == [(2, Kind.LETTER)]
    assert host.hub.settled == 1


def test_a_member_that_takes_its_coming_back_is_waited_for_again(host: Host):
    all_come(host, 2)
    host.unsaid(1)
    all_come(host, 0, 1)
    assert host.settled() == []
    all_come(host, 0, 2)
    assert host.settled() == [(1, Kind.MET), (2, Kind.MET)]
    assert host.member.exits == {}


def test_a_host_can_take_its_coming_back_before_all_are_there(host: Host):
    all_come(host, 2)
    assert host.take_back() is True
    assert host.hub.closed == [-1.0]
    assert not host._thread.is_alive()


def test_a_host_that_took_its_coming_back_lets_nobody_in(host: Host):
    host.hub.take_back = lambda: all_come(host, 0, 1)
    all_come(host, 2)
    host.take_back()
    assert host.hub.posts == []


def test_a_host_stays_once_all_were_let_in(host: Host):
    all_come(host)
    assert host.take_back() is False
    assert host.hub.closed == []
    host.post(letter(0, 2))
    assert host.settled()[-1] == (2, Kind.LETTER)
