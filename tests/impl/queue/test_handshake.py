"""The door step by step: who is let in, who is told what, who has gone (Q10, Q17, S3)."""

import os
import socket
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.security import Keys
from refengine.errors import PeerDied, QueueClosed, RankRefused
from refengine.queue import handshake
from refengine.queue.handshake import (
    GO,
    REFUSED,
    WELCOME,
    HandshakeClient,
    HandshakeServer,
    HandshakeState,
    hello_message,
)

KEYS = Keys.fresh()


class Payloads:
    """The overflow socket: frames that come up, and readers to expect."""

    def __init__(self, undo: ExitStack) -> None:
        self.frames: deque[bytes] = deque()
        self.expected: list[int] = []
        self.socket, other = socket.socketpair()
        undo.callback(self.socket.close)
        undo.callback(other.close)

    def subscriptions(self) -> deque[bytes]:
        return self.frames

    def expect_readers(self, to_come: int) -> None:
        self.expected.append(to_come)


class Sockets:
    def __init__(self, undo: ExitStack, path: str) -> None:
        self.undo, self.path = undo, path

    def listen(self, path: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.undo.callback(made.close)
        made.setblocking(False)
        made.bind(path)
        made.listen(100)
        return made

    def connect(self, path: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.undo.callback(made.close)
        made.connect(path)
        made.setblocking(False)
        return made


class House:
    """A door for ranks 0 and 2, and those who knock at it."""

    def __init__(self, undo: ExitStack, path: str) -> None:
        self.undo, self.path = undo, path
        self.payloads, self.sockets = Payloads(undo), Sockets(undo, path)
        self.bells = os.eventfd(0), os.eventfd(0)
        for fd in self.bells:
            undo.callback(os.close, fd)
        self.rendezvous, self.left = HandshakeState([0, 2], KEYS), set[int]()
        self.waiter = os.eventfd(0)
        undo.callback(os.close, self.waiter)
        self.door = HandshakeServer(
            path,
            self.rendezvous,
            self.payloads,
            self.bells,
            self.sockets,
            self.left.__contains__,
        )
        undo.callback(self.door.close)
        undo.callback(lambda: [peer.close() for peer in self.door.peers.values()])

    def knock(self, greeting: bytes) -> HandshakeClient:
        made = HandshakeClient(self.path, greeting, self.sockets)
        self.undo.callback(made.close)
        made.say_hello()
        return made

    def serve(self, seconds: float | None = 0) -> bool:
        return self.door.wait(lambda: seconds, self.waiter)

    def arrived(self, rank: int) -> HandshakeClient:
        knock = self.knock(hello_message(rank, KEYS))
        self.serve()
        assert knock.hear()
        self.payloads.frames.append(b"\1" + knock.welcome()[0])
        return knock


@pytest.fixture
def house(tmp_path: Any) -> Iterator[House]:
    with ExitStack() as undo:
        yield House(undo, str(tmp_path / "door"))


def test_all_are_there_once_each_was_welcomed_and_has_subscribed(house: House):
    assert house.serve() is False
    one = house.arrived(0)
    assert (one.welcomed, one.hear()) == (True, False)
    assert house.payloads.expected == [1]
    assert house.serve() is False
    two = house.arrived(2)
    assert house.payloads.expected == [1, 0]
    assert house.serve() is True
    assert not house.payloads.frames
    assert (one.go, two.go) == (False, False)
    assert sorted(house.door.peers) == [0, 2]
    assert [peer.role for _, peer in sorted(house.door.peers.items())] == ["reader 0", "reader 2"]
    house.door.send_go()
    house.door.send_go()  # once each
    for knock in (one, two):
        assert (knock.hear(), knock.go) == (True, True)
        assert knock.hear() is False


def test_a_welcome_brings_the_two_bells_which_no_child_inherits(house: House):
    knock = house.knock(hello_message(0, KEYS))
    assert knock.hear() is False
    assert not knock.welcomed
    house.serve()
    assert knock.hear() is True
    assert knock.welcomed
    nonce, fds = knock.welcome()
    assert len(nonce) == 16
    for own, fd in zip(house.bells, fds, strict=True):
        assert not os.get_inheritable(fd)
        os.eventfd_write(own, 1)
        assert os.eventfd_read(fd) == 1
    knock.close()
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


def test_a_known_party_that_asks_for_a_wrong_rank_is_told_and_so_are_we(house: House):
    knock = house.knock(hello_message(1, KEYS))
    with pytest.raises(RankRefused) as caught:
        house.serve()
    assert caught.value.facts[:2] == (1, "unknown; the ranks are [0, 2]")
    with pytest.raises(RankRefused) as caught:
        knock.hear()
    assert caught.value.facts[:2] == (1, "unknown; the ranks are [0, 2]")
    assert house.door.peers == {}


@pytest.mark.parametrize(
    "greeting",
    [b"x", hello_message(0, Keys.fresh()), hello_message(0, KEYS) + b"more"],
    ids=["short", "wrong-key", "long"],
)
def test_a_stranger_is_refused_without_troubling_us(house: House, greeting: bytes):
    knock = house.knock(greeting)
    assert house.serve() is False
    with pytest.raises(RankRefused) as caught:
        knock.hear()
    assert caught.value.rank == -1
    assert house.arrived(0).welcomed


def test_a_stranger_that_went_away_by_itself_is_nobody(house: House):
    house.knock(b"x").peer.link.close()
    quiet = house.sockets.connect(house.path)
    house.serve()
    assert len(house.door._pending) == 1  # it has said nothing yet
    quiet.close()
    house.serve()
    assert house.door._pending == {}


def test_another_users_process_is_not_let_in(house: House, monkeypatch: pytest.MonkeyPatch):
    for uid, let_in in ((os.geteuid() + 1, False), (0, True), (os.geteuid(), True)):
        monkeypatch.setattr(handshake, "peer_of", lambda _, uid=uid: (1, uid))
        house.sockets.connect(house.path)
        house.serve()
        assert len(house.door._pending) == let_in
        for fd, caller in list(house.door._pending.items()):
            caller.link.close()
            del house.door._pending[fd]


def test_room_is_asked_for_those_who_wait_and_those_on_their_way(
    house: House, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []
    monkeypatch.setattr(handshake, "ensure_fds_available", asked.append)
    house.arrived(0)  # its payload connection is still to come
    assert asked == [2]
    for _ in range(2):
        house.sockets.connect(house.path)
    house.payloads.frames.clear()
    house.serve()
    assert asked == [2, 3, 4]


def test_no_more_than_64_may_wait_to_say_something(house: House):
    for _ in range(66):
        house.sockets.connect(house.path)
    house.serve()
    assert len(house.door._pending) == 64


def test_a_reader_that_goes_away_early_is_dead_or_has_left(house: House):
    house.arrived(0).peer.close()
    with pytest.raises(PeerDied) as caught:
        house.serve()
    assert caught.value.facts[:3] == ("reader 0", os.getpid(), "the rendezvous")
    house.left.add(0)
    with pytest.raises(QueueClosed, match="reader 0"):
        house.serve()


def test_one_that_is_gone_when_it_is_told_to_go_is_dead(house: House):
    house.arrived(0)
    house.serve()
    house.door.peers[0].link.shutdown(socket.SHUT_RDWR)
    with pytest.raises(PeerDied, match="reader 0"):
        house.door.send_go()


@pytest.mark.parametrize(
    ("seconds", "slept"),
    [(None, None), (0, 0), (-1.0, 0), (0.0004, 1), (1.5, 1501), (3e6, 2_000_000_001)],
)
def test_a_round_sleeps_as_long_as_it_may(
    house: House, monkeypatch: pytest.MonkeyPatch, seconds: float | None, slept: int | None
):
    asked: list[Any] = []

    class Poller:
        def __init__(self) -> None:
            self.fds: list[Any] = []

        def register(self, fd: Any, events: int) -> None:
            self.fds.append((fd, events))

        def poll(self, timeout: int | None) -> None:
            asked.extend([timeout, self.fds])

    house.arrived(0)
    nonce = house.payloads.frames.pop()
    monkeypatch.setattr(handshake, "zmq", SimpleNamespace(Poller=Poller, POLLIN=1, POLLERR=4))
    house.serve(seconds)
    peer = house.door.peers[0]
    assert asked == [
        slept,
        [
            (house.door._listener.fileno(), 1),
            (house.waiter, 1),
            (peer.link.fileno(), 4),
            (peer.pidfd, 1),
            (house.payloads.socket, 1),
        ],
    ]
    house.payloads.frames.append(nonce)  # left of a round that an exception struck
    house.serve(seconds)
    assert asked[2] == 0


def test_a_closed_door_lets_nobody_in_and_those_who_wait_go(house: House):
    quiet = house.sockets.connect(house.path)
    house.serve()
    house.door.close()
    assert quiet.recv(1) == b""
    assert house.door._pending == {}
    assert house.serve(None) is True  # nobody is missing any more: no round, no sleep
    with pytest.raises(OSError, match="refused"):
        house.sockets.connect(house.path)


# -- the knock ------------------------------------------------------------------------------


def knocking(house: House) -> tuple[HandshakeClient, socket.socket]:
    """A knock, and our end of it."""
    listener = house.door._listener
    knock = house.knock(b"greeting")
    link, _ = listener.accept()
    link.settimeout(10)
    house.undo.callback(link.close)
    assert link.recv(100) == b"greeting"
    return knock, link


def test_a_refusal_is_told_with_its_rank(house: House):
    knock, link = knocking(house)
    link.send(REFUSED + struct.pack(">i", -5) + b"why")
    with pytest.raises(RankRefused) as caught:
        knock.hear()
    assert caught.value.facts[:2] == (-5, "why")


def test_a_welcome_is_what_stands_behind_the_word(house: House):
    knock, link = knocking(house)
    link.send(WELCOME + b"nonce")
    assert knock.hear() is True
    assert (knock.welcome(), knock.go) == ((b"nonce", []), False)
    link.send(WELCOME + b"nonce")  # again, after an exception
    link.send(GO)
    assert (knock.hear(), knock.go) == (True, False)
    assert (knock.hear(), knock.go) == (True, True)
    assert knock.welcome() == (b"nonce", [])


def test_a_hello_is_said_once(house: House):
    knock, link = knocking(house)
    knock.say_hello()
    link.setblocking(False)
    with pytest.raises(BlockingIOError):
        link.recv(100)


@pytest.mark.parametrize("word", [b"nonsense", None])
def test_a_writer_that_hangs_up_or_says_nonsense_is_gone(house: House, word: bytes | None):
    knock, link = knocking(house)
    link.close() if word is None else link.send(word)
    with pytest.raises(PeerDied) as caught:
        knock.hear()
    assert caught.value.facts[:3] == ("writer", os.getpid(), "the rendezvous")


def test_a_greeting_that_could_not_be_sent_is_told_when_nothing_comes(house: House):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    house.undo.callback(theirs.close)
    ours.setblocking(False)
    ours.shutdown(socket.SHUT_WR)
    knock = HandshakeClient("", b"greeting", SimpleNamespace(connect=lambda _: ours))
    house.undo.callback(knock.close)
    knock.say_hello()
    theirs.send(WELCOME)
    assert knock.hear()  # what was said before counts
    with pytest.raises(PeerDied):
        knock.hear()
