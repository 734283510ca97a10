"""For how long each part waits, and for what: told by a poll that only remembers."""

import select
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.cleanup import ReleaseStack
from refengine.base.security import Keys, SocketFactory
from refengine.errors import Busy, DeadlinePassed
from refengine.pipe import receiver as receiver_module
from refengine.pipe import rendezvous
from refengine.pipe.handshake import HandshakeServer, _UnauthenticatedPeer
from refengine.pipe.link import Link, ready
from refengine.pipe.sender import Sender

from .pairs import HERE, links, receiver, sender
from .test_receiver import frame
from .test_rendezvous import rank_info

Poll = SimpleNamespace


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> list[Poll]:
    """Each with the descriptors that it was told, and the milliseconds that it was to wait."""
    made: list[Poll] = []

    def poll() -> Poll:
        one = Poll(told={}, waited=None)

        def register(what: Any, events: int = 0) -> None:
            one.told[what if isinstance(what, int) else what.fileno()] = events

        def wait(milliseconds: float | None = None) -> list[tuple[int, int]]:
            one.waited = milliseconds
            return []

        one.register, one.poll = register, wait
        made.append(one)
        return one

    monkeypatch.setattr(select, "poll", poll)
    return made


@pytest.mark.parametrize(
    ("seconds", "waited"),
    [(2.0, 2000), (0.0004, 1), (0.0, 0), (-1.0, 0), (3e6, 2_000_000_000), (None, None)],
)
def test_a_link_is_waited_for_so_long(seconds: float | None, waited: int | None, polls: list[Poll]):
    one, other = links()
    assert ready(one.sock, select.POLLIN | select.POLLOUT, seconds, 99) == 0
    assert polls[0].waited == waited
    told = {one.sock.fileno(): select.POLLIN | select.POLLOUT, 99: select.POLLIN}
    assert polls[0].told == told
    one.close()
    other.close()


def test_a_door_waits_until_the_first_stranger_has_had_its_time(polls: list[Poll]):
    server = HandshakeServer(
        "127.0.0.1",
        0,
        Keys.fresh(),
        2,
        HERE,
        set(),
        handshake_timeout=5.0,
        sockets=SocketFactory(),
        clock=lambda: 100.0,
    )
    one, other = links()
    for seconds, since, waited in (
        (None, [], None),
        (2.0, [], 2001),
        (-1.0, [], 1),
        (3e6, [], 2_000_000_001),
        (None, [98.0, 99.0], 3001),
        (2.0, [98.0, 99.0], 2001),
        (4.0, [98.0, 99.0], 3001),
    ):
        server._connections.clear()
        socks = (one.sock, other.sock)
        for sock, moment in zip(socks, since, strict=False):
            server._connections.append(_UnauthenticatedPeer(sock, moment, None))  # never heard
        server.wait(seconds, 99)
        assert polls[-1].waited == waited
        wanted = {each.sock.fileno(): select.POLLIN for each in server._connections}
        wanted |= {server._listener.fileno(): select.POLLIN, 99: select.POLLRDHUP}
        assert polls[-1].told == wanted
        assert len(server._connections) == len(since)
    server.close()
    one.close()
    other.close()


@pytest.mark.parametrize(("left", "waited"), [(5.0, 30.0), (0.01, 10.0)])
def test_a_door_that_is_not_open_yet_is_tried_again_soon(
    left: float, waited: float, polls: list[Poll], monkeypatch: pytest.MonkeyPatch
):
    tries: list[object] = []
    one, other = links()

    def connect_to_server(*_: object) -> Link:
        tries.append(None)
        if len(tries) == 1:
            raise ConnectionRefusedError
        return one

    monkeypatch.setattr(rendezvous, "connect_to_server", connect_to_server)
    still = replace(rank_info(5000, 1, 2), clock=lambda: 0.0)
    guest = rendezvous._Joiner(still, left, left, ReleaseStack())
    assert guest._link(0, ("127.0.0.1", 5000), 0) is one
    assert [each.waited for each in polls] == [waited]
    one.close()
    other.close()


def test_a_receiver_sleeps_until_something_comes_or_it_is_rung(monkeypatch: pytest.MonkeyPatch):
    out, into = links()
    end = receiver(into)
    waits: list[tuple[Any, ...]] = []

    def come(*told: Any) -> int:
        waits.append(told)
        out.sock.send(frame(0, b"x"))
        return select.POLLIN

    monkeypatch.setattr(receiver_module, "ready", come)
    assert end.receive(None)[0] == b"x"
    assert waits == [(into.sock, select.POLLIN, None, end._wakeup.fileno())]
    end.close(1.0)
    out.close()


def test_a_receiver_looks_no_more_once_its_time_is_over(monkeypatch: pytest.MonkeyPatch):
    out, into = links()
    end = receiver(into)
    waits: list[float] = []
    monkeypatch.setattr(
        receiver_module, "ready", lambda _sock, _events, left, _wakeup: waits.append(left)
    )
    end._wait(0.5, 1.0)
    for over in (0.0, -0.5):
        with pytest.raises(DeadlinePassed, match=r"waited 1 s for a tensor from rank 0"):
            end._wait(over, 1.0)
    assert waits == [0.5]
    end.close(1.0)
    out.close()


def test_a_call_within_a_call_is_one_too_many(monkeypatch: pytest.MonkeyPatch):
    """As a signal's handler might make it."""
    out, into = links()
    end = receiver(into)

    def come(*_: Any) -> int:
        with pytest.raises(Busy):
            end.receive(0.0)
        out.sock.send(frame(0, b"x"))
        return select.POLLIN

    monkeypatch.setattr(receiver_module, "ready", come)
    assert end.receive(5.0)[0] == b"x"
    end.close(1.0)
    out.close()


class Inside:
    """A guard of a call that is inside, and ends at some time."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.steps: list[object] = []

    def enter_within(self, seconds: float) -> bool:
        self.steps.append((seconds, self.link.sock.fileno() >= 0))
        return True

    def exit(self) -> None:
        self.steps.append("left")


def test_a_call_inside_may_end_before_the_link_is_closed():
    out, into = links()
    end = receiver(into)
    guard: Any = Inside(into)
    end._guard = guard
    end.close(0.5)
    assert guard.steps == [(0.5, True), "left"]
    assert into.sock.fileno() == -1
    out.close()


def test_whoever_waits_is_rung_once_the_end_is_known():
    out, into = links()
    end = receiver(into)
    rung: list[bool] = []
    end._wakeup.wake = lambda: rung.append(end._closed)
    end.close(1.0)
    assert rung == [True]
    out.close()


def test_a_senders_thread_forgets_what_it_was_rung_for_and_sleeps_on():
    out, into = links()
    one: Sender = sender(out, clock=lambda: 100.0)
    one._close_by = 100.5
    one._wakeup.wake()
    one._sleep(select.POLLIN)
    assert one._end is None
    assert not ready(out.sock, 0, 0.0, one._wakeup.fileno())
    wakeup = select.poll()
    wakeup.register(one._wakeup.fileno(), select.POLLIN)
    assert not wakeup.poll(0)
    one.close_now()
    into.close()
