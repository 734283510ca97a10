"""What hub and spoke conclude from signs of life, step by step: time is a number here."""

import os
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.transport import Client, Gone, Server, protocol
from refengine.transport import keepalive as keepalive_module
from refengine.transport import server as server_module
from refengine.transport.client import _Attempt
from refengine.transport.io_thread import RETURN_WITHIN
from refengine.transport.keepalive import TcpKeepalive, await_given_up
from refengine.transport.server import _Peer

SILENCE = 4.0
NOW = 1000.0


class Pulse:
    """A connection that has been quiet for so long, or has hung up."""

    def __init__(self, quiet: float = 0.0, hung_up: bool = False) -> None:
        self._quiet, self._hung_up, self.closed = quiet, hung_up, False

    def quiet(self) -> float:
        return self._quiet

    def hung_up(self) -> bool:
        return self._hung_up

    def close(self) -> None:
        self.closed = True

    def end(self) -> None:
        self.closed = True


class Ear:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def broken(self, rank: int) -> None:
        self.heard.append(("broken", rank))

    def gone(self, rank: int, how: Gone) -> None:
        self.heard.append((how.kind, how.seconds, how.pid))

    def arrived(self, rank: int) -> None:
        self.heard.append(("arrived", rank))

    def back(self, rank: int) -> None:
        self.heard.append(("back", rank))


def made(kind: Any, **state: Any) -> tuple[Any, Ear]:
    """A hub or a spoke without its thread and its sockets."""
    ear, end = Ear(), object.__new__(kind)
    end.__dict__.update(
        _listener=ear, _peer_timeout=SILENCE, _clock=lambda: NOW, _unsaid=None, **state
    )
    return end, ear


# -- the hub --------------------------------------------------------------------------------


def checked(far: _Peer, *, settles: bool = True) -> tuple[list[Any], list[Any]]:
    """What is heard of a check, and what was sent."""
    sent: list[Any] = []
    server, ear = made(Server, _settles=settles)
    server._answer = lambda identity, *frames: sent.append((identity, *frames))
    server._check(far, NOW)
    return ear.heard, sent


def test_a_rank_that_hangs_up_is_broken_from_then_on():
    keepalive = Pulse(hung_up=True)
    far = _Peer(3, pid=7, keepalive=keepalive)
    assert checked(far) == ([("broken", 3)], [])
    assert (far.keepalive, far.broken_at, keepalive.closed) == (None, NOW, True)


@pytest.mark.parametrize("quiet", [SILENCE - 0.001, SILENCE])
def test_a_rank_is_gone_when_it_has_been_quiet_for_the_silence(quiet: float):
    far = _Peer(3, pid=7, identity=b"id", keepalive=Pulse(quiet))
    dropped = ([("silent", SILENCE, 7)], [(b"id", bytes([protocol.DROPPED]))])
    assert checked(far) == (dropped if quiet >= SILENCE else ([], []))
    assert (far.gone is None) == (quiet < SILENCE)


@pytest.mark.parametrize("since", [RETURN_WITHIN - 0.001, RETURN_WITHIN])
def test_a_rank_that_does_not_return_in_time_has_died(since: float):
    died = [("died", RETURN_WITHIN, 7)] if since >= RETURN_WITHIN else []
    assert checked(_Peer(3, pid=7, broken_at=NOW - since)) == (died, [])


@pytest.mark.parametrize(("since", "settles"), [(SILENCE - 0.001, True), (SILENCE, False)])
def test_a_forgotten_rank_is_waited_for_a_silence_by_who_has_settled(since: float, settles: bool):
    assert checked(_Peer(3, pid=7, forgotten_at=NOW - since), settles=settles) == ([], [])
    assert checked(_Peer(3, pid=7, forgotten_at=NOW - SILENCE)) == ([("closed", 0.0, 7)], [])


@pytest.mark.parametrize("unplugged", [True, False])
def test_a_hello_whose_connection_is_gone_again_is_a_break(unplugged: bool):
    server, ear = made(Server, _pid=1, _token=b"hub")
    server._answer = lambda *_: True
    far, keepalive = _Peer(3), None if unplugged else Pulse()
    server._plug(far, b"id", SimpleNamespace(token=b"it", pid=7, attempt=1), keepalive)
    assert ear.heard == [("arrived", 3)]
    assert (far.keepalive, far.broken_at) == (keepalive, NOW if unplugged else None)


@pytest.mark.parametrize("hung_up", [True, False])
def test_a_hello_that_comes_before_its_break_was_looked_at_tells_of_both(hung_up: bool):
    server, ear = made(Server, _pid=1, _token=b"hub")
    server._answer = lambda *_: True
    far = _Peer(3, token=b"it", keepalive=Pulse(hung_up=hung_up))
    server._plug(far, b"id", SimpleNamespace(token=b"it", pid=7, attempt=2), Pulse())
    assert ear.heard == [*([("broken", 3)] if hung_up else []), ("back", 3)]


@pytest.mark.parametrize(("attempt", "used"), [(1, b"known"), (2, b"new"), (3, b"new")])
def test_the_hello_of_a_connection_that_was_given_up_changes_nothing(
    attempt: int, used: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server_module, "keepalive_of", lambda _frame, _address: Pulse())
    token, answers = b"t" * protocol.TOKEN_BYTES, list[Any]()
    keys = SimpleNamespace(match=lambda _secret: True)
    server, ear = made(Server, _pid=1, _token=b"h" * protocol.TOKEN_BYTES, _keys=keys)
    server.address = "tcp://127.0.0.1:1"
    far = _Peer(3, token=token, attempt=2, identity=b"known", keepalive=Pulse())
    server._peers, server._answer = {3: far}, lambda *frames: answers.append(frames)
    server._greet(b"new", protocol.Hello(3, b"s" * 32, token, 0, 7, attempt).pack(), object())
    assert far.identity == used
    assert bool(answers) == (used == b"new")
    assert ear.heard == ([("back", 3)] if answers else [])


# -- the spoke ------------------------------------------------------------------------------


def client(**state: Any) -> tuple[Any, Ear]:
    rest: dict[str, Any] = {
        "_keepalive": None,
        "_attempt": None,
        "_current": None,
        "_broken_at": None,
    }
    rest |= {"_ended": False, "_server_pid": 7, "_welcome_by": None, "_patience": 3.0}
    end, ear = made(Client, **(rest | state))
    end._begin = lambda now: ear.heard.append(("begins", now))
    return end, ear


def tried(began: float, *, again: bool = False) -> Any:
    return _Attempt(SimpleNamespace(closed=False, close=lambda linger: None), began, 0, again)


@pytest.mark.parametrize(
    ("state", "heard"),
    [
        ({"_keepalive": Pulse(SILENCE / 2 - 0.001)}, []),
        ({"_keepalive": Pulse(SILENCE / 2)}, [("begins", NOW)]),
        ({"_keepalive": Pulse(SILENCE / 2), "_attempt": tried(NOW)}, []),
        ({"_keepalive": Pulse(SILENCE)}, [("silent", SILENCE, 7)]),
        ({"_broken_at": NOW - RETURN_WITHIN + 0.001}, []),
        ({"_broken_at": NOW - RETURN_WITHIN}, [("died", RETURN_WITHIN, 7)]),
        ({"_welcome_by": NOW + 0.001}, []),
        ({"_welcome_by": NOW}, [("silent", 3.0, 0)]),
        ({"_attempt": tried(NOW - 0.999)}, []),
        ({"_attempt": tried(NOW - 1.0)}, [("begins", NOW)]),
    ],
)
def test_a_spoke_tries_beside_half_a_silence_and_gives_up_when_its_time_is_over(
    state: dict[str, Any], heard: list[Any]
):
    end, ear = client(**state)
    end._check(NOW)
    assert ear.heard == heard


@pytest.mark.parametrize(("again", "seconds"), [(False, 1.0), (True, 2.0)])
def test_an_answer_that_was_lost_is_asked_for_while_the_hub_still_waits(
    again: bool, seconds: float
):
    assert again or seconds < RETURN_WITHIN
    for passed, begins in ((seconds - 0.001, []), (seconds, [("begins", NOW)])):
        end, ear = client(_attempt=tried(NOW - passed, again=again))
        end._peer_timeout, end._tick = 10.0, 0.5
        assert end._until_check() == pytest.approx(max(0.0, seconds - passed))
        end._check(NOW)
        assert ear.heard == begins


def test_a_spoke_whose_hub_hangs_up_keeps_the_socket_and_counts_from_then():
    keepalive, socket = Pulse(hung_up=True), object()
    end, ear = client(_keepalive=keepalive, _current=socket)
    end._check(NOW)
    assert (end._keepalive, end._broken_at, end._current, keepalive.closed) == (
        None,
        NOW,
        socket,
        True,
    )
    assert ear.heard == []
    assert end._until_check() == 0.0  # so another one is tried at once


def test_an_end_gives_up_the_connection_that_is_tried():
    end, ear = client(_attempt=tried(NOW))
    closed: list[int] = []
    end._attempt.socket.close = lambda linger: closed.append(linger)
    end._end(Gone("silent", SILENCE, pid=7))
    end._end(Gone("closed"))  # once
    assert (end._attempt, closed, ear.heard) == (None, [0], [("silent", SILENCE, 7)])


@pytest.mark.parametrize("kind", [Server, Client])
def test_silence_is_ten_seconds_unless_told(kind: Any):
    assert kind.__init__.__kwdefaults__["peer_timeout"] == 10.0


# -- a connection that libzmq owns ----------------------------------------------------------


@pytest.fixture
def connected() -> Iterator[tuple[socket.socket, socket.socket, str]]:
    """Both ends of a connection, and where it was made to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as near, listener.accept()[0] as far:
            yield near, far, f"tcp://127.0.0.1:{port}"


def test_a_descriptor_that_is_another_connection_s_by_now_is_not_watched(connected: Any):
    near, far, address = connected
    for end in (near, far):
        TcpKeepalive(end.fileno(), address).close()
        with pytest.raises(OSError, match=f"{end.fileno()} is another's by now"):
            TcpKeepalive(end.fileno(), "tcp://127.0.0.1:1")


def test_an_ended_connection_is_given_up_once_its_descriptor_is_closed(connected: Any):
    near, far, address = connected
    keepalive = TcpKeepalive(near.fileno(), address)
    far.sendall(b"still")
    keepalive.end()
    assert not keepalive.is_given_up()
    assert (near.recv(9), near.recv(9)) == (b"still", b"")
    near.sendall(b"told")
    assert far.recv(9) == b"told"
    reader = threading.Timer(0.0, near.close)
    reader.start()
    await_given_up([None, keepalive])
    assert keepalive.is_given_up()
    reader.join()


def test_a_descriptor_that_is_used_again_was_given_up(connected: Any):
    near, _, address = connected
    keepalive, number = TcpKeepalive(near.fileno(), address), near.fileno()
    with socket.socket() as other:
        os.dup2(other.fileno(), number)
        assert keepalive.is_given_up()
    keepalive.close()


def test_what_is_not_given_up_is_waited_for_a_second_at_most(
    connected: Any, monkeypatch: pytest.MonkeyPatch
):
    near, _, address = connected
    keepalive, turns = TcpKeepalive(near.fileno(), address), iter([0.0, 0.5, 1.5])
    monkeypatch.setattr(keepalive_module, "monotonic", lambda: next(turns))
    await_given_up([keepalive])
    assert not keepalive.is_given_up()
    assert list(turns) == []
    keepalive.close()
