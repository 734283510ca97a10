"""The relay carries bytes unchanged, and harms exactly what it was told to."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from killpoint.errors import CannotWork
from killpoint.runner.network.relay import Way
from killpoint.runner.network.relay_client import Relay, joined, split

PATIENT = 10.0


class Pair:
    """A connection through the relay: the role's side, and the peer's."""

    def __init__(self, relay: Relay, role: str = "reader-0", host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.door = socket.create_server((host, 0), family=family)
        port = self.door.getsockname()[1]
        near = relay.route(role, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        self.near = split(near)
        self.role, self.peer = self.connect()

    def connect(self) -> tuple[socket.socket, socket.socket]:
        role = socket.create_connection(self.near, PATIENT)
        self.door.settimeout(PATIENT)
        peer = self.door.accept()[0]
        for sock in (role, peer):
            sock.settimeout(PATIENT)
        return role, peer

    def close(self) -> None:
        for sock in (self.role, self.peer, self.door):
            sock.close()


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay()
    yield made
    made.close()


@pytest.fixture
def pair(relay: Relay) -> Iterator[Pair]:
    made = Pair(relay)
    yield made
    made.close()


def silent(sock: socket.socket, seconds: float = 0.15) -> bool:
    """Whether nothing comes, not even an end."""
    return not select.select([sock], [], [], seconds)[0]


def exactly(sock: socket.socket, size: int) -> bytes:
    body = b""
    while len(body) < size:
        part = sock.recv(size - len(body))
        assert part
        body += part
    return body


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENT
    while not condition():
        assert time.monotonic() < end, "it never came about"
        select.select([], [], [], 0.01)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bytes_pass_both_ways_and_an_end_follows_them(relay: Relay, host: str) -> None:
    pair = Pair(relay, host=host)
    body = os.urandom(3 << 20)
    sender = threading.Thread(target=lambda: (pair.peer.sendall(body), pair.peer.close()))
    sender.start()
    assert exactly(pair.role, len(body)) == body
    assert pair.role.recv(1) == b""
    sender.join()
    pair.close()
    assert relay.report(["reader-0"]).to_role == len(body)


def test_a_cut_holds_everything_and_a_heal_gives_it_back(relay: Relay, pair: Pair) -> None:
    assert relay.do("cut", ["reader-0"], "both", 0).met == 1
    pair.peer.sendall(b"down")
    pair.role.sendall(b"up")
    pair.peer.shutdown(socket.SHUT_WR)
    assert silent(pair.role)
    assert silent(pair.peer)
    assert relay.report(["reader-0"]).withheld == 6
    relay.do("heal", ["reader-0"], "both", 0)
    assert exactly(pair.role, 4) == b"down"
    assert pair.role.recv(1) == b""
    assert exactly(pair.peer, 2) == b"up"


def test_a_cut_of_one_direction_lets_the_other_pass(relay: Relay, pair: Pair) -> None:
    relay.do("cut", ["reader-0"], "role", 0)
    pair.peer.sendall(b"down")
    pair.role.sendall(b"up")
    assert exactly(pair.peer, 2) == b"up"
    assert silent(pair.role)


def test_a_new_connection_waits_for_the_heal(relay: Relay, pair: Pair) -> None:
    relay.do("cut", ["reader-0"], "both", 0)
    late = socket.create_connection(pair.near, PATIENT)
    late.sendall(b"late")
    assert silent(pair.door)
    relay.do("heal", ["reader-0"], "both", 0)
    served = pair.door.accept()[0]
    assert exactly(served, 4) == b"late"
    served.close()
    late.close()


def test_another_roles_connections_are_left_alone(relay: Relay, pair: Pair) -> None:
    other = Pair(relay, role="reader-1")
    relay.do("cut", ["reader-0"], "both", 0)
    other.peer.sendall(b"x")
    assert exactly(other.role, 1) == b"x"
    assert relay.report(["reader-1"]).withheld == 0
    other.close()


def test_a_delay_is_kept_and_so_is_the_order(relay: Relay, pair: Pair) -> None:
    relay.do("delay", ["reader-0"], "role", 0.2)
    began = time.monotonic()
    pair.peer.sendall(b"ab")
    pair.role.sendall(b"up")
    assert exactly(pair.peer, 2) == b"up"
    relay.do("heal", ["reader-0"], "both", 0)
    pair.peer.sendall(b"cd")
    assert exactly(pair.role, 4) == b"abcd"
    assert time.monotonic() - began >= 0.2
    assert relay.report(["reader-0"]).late == 2


def test_a_reset_ends_both_sides_and_new_connections_work(relay: Relay, pair: Pair) -> None:
    assert relay.do("reset", ["reader-0"], "both", 0).met == 1
    for sock in (pair.role, pair.peer):
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    role, peer = pair.connect()
    peer.sendall(b"x")
    assert exactly(role, 1) == b"x"
    role.close()
    peer.close()


def test_half_open_stays_so_and_a_heal_is_for_new_connections(relay: Relay, pair: Pair) -> None:
    relay.do("half-open", ["reader-0"], "role", 0)
    pair.peer.sendall(b"lost")
    pair.role.sendall(b"up")
    assert exactly(pair.peer, 2) == b"up"
    until(lambda: relay.report(["reader-0"]).dropped == 4)
    relay.do("heal", ["reader-0"], "both", 0)
    role, peer = pair.connect()
    peer.sendall(b"new")
    assert exactly(role, 3) == b"new"
    pair.peer.sendall(b"lost too")
    pair.peer.close()
    assert silent(pair.role)
    for sock in (role, peer):
        sock.close()


def test_a_peers_reset_comes_after_what_it_had_sent(relay: Relay, pair: Pair) -> None:
    relay.do("delay", ["reader-0"], "role", 0.1)
    pair.peer.sendall(b"last words")
    until(lambda: relay.report(["reader-0"]).late == 10)
    pair.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    pair.peer.close()
    assert exactly(pair.role, 10) == b"last words"
    with pytest.raises(ConnectionResetError):
        pair.role.recv(1)


def test_who_sends_to_one_that_is_gone_is_reset(relay: Relay, pair: Pair) -> None:
    pair.peer.close()
    assert pair.role.recv(1) == b""

    def refused() -> bool:
        try:
            pair.role.sendall(b"x")
        except (BrokenPipeError, ConnectionResetError):
            return True
        return False

    until(refused)


def test_a_peer_that_does_not_listen_is_told_by_a_reset(relay: Relay, pair: Pair) -> None:
    pair.door.close()

    def come() -> None:
        """The reset may be there before the connect has returned."""
        with socket.create_connection(pair.near, PATIENT) as late:
            late.settimeout(PATIENT)
            late.recv(1)

    with pytest.raises(ConnectionResetError):
        come()


def test_a_slow_receiver_slows_the_sender(relay: Relay, pair: Pair) -> None:
    pair.peer.settimeout(0.5)
    with pytest.raises(TimeoutError):
        pair.peer.sendall(bytes(1 << 28))


def test_an_idle_relay_uses_no_cpu(relay: Relay, pair: Pair) -> None:
    relay.do("cut", ["reader-0"], "both", 0)
    pair.peer.sendall(b"x")
    pair.role.close()
    before = _cpu(relay.pid)
    select.select([], [], [], 0.5)
    assert _cpu(relay.pid) - before < 0.1


def test_a_relay_that_died_is_told_in_words(relay: Relay) -> None:
    os.kill(relay.pid, signal.SIGKILL)
    with pytest.raises(CannotWork, match="relay"):
        relay.report(["reader-0"])


def test_it_ends_with_its_director() -> None:
    code = "from killpoint.runner.network.relay_client import Relay\nimport os, sys\n"
    code += "print(Relay().pid, flush=True)\nsys.stdin.read()\n"
    runner = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert runner.stdout
    assert runner.stdin
    pid = int(runner.stdout.readline())
    runner.kill()
    runner.wait()
    runner.stdin.close()
    runner.stdout.close()
    until(lambda: not Path(f"/proc/{pid}").exists() or _state(pid) == "Z")


def test_what_is_read_is_handed_on_in_order_when_it_is_due() -> None:
    way = Way(delay=1.0)
    way.put(10.0, b"ab")
    way.delay = 0.0
    way.put(10.5, b"c")
    assert way.due(10.9) is None
    assert way.next_due() == 11.0
    seen = b""
    while (data := way.due(11.0)) is not None:
        seen += bytes(data[:1])
        way.handed_on(1)
    assert seen == b"abc"
    assert (way.bytes, way.late, way.held()) == (3, 2, 0)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_a_lazy_route_refuses_until_somebody_listens_behind_it(relay: Relay) -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{door.getsockname()[1]}"
        near = split(relay.route("rank-1", address, lazy=True))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(near, PATIENT)
        assert relay.report(["rank-1"]).connections == 0
        door.listen()
        door.settimeout(PATIENT)
        end = time.monotonic() + PATIENT
        while True:
            try:
                role = socket.create_connection(near, PATIENT)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end, "the route never opened"
        with role, door.accept()[0] as peer:
            role.sendall(b"at last")
            assert exactly(peer, 7) == b"at last"


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 5), ("::1", 65_535)])
def test_an_address_is_joined_as_it_is_split(host: str, port: int) -> None:
    assert split(joined(host, port)) == (host, port)


@pytest.mark.parametrize("toward", ["role", "peer"])
def test_a_reset_waits_for_as_many_bytes_as_it_was_told(
    relay: Relay, pair: Pair, toward: str
) -> None:
    source, sink = (pair.peer, pair.role) if toward == "role" else (pair.role, pair.peer)
    source.sendall(b"before")
    assert exactly(sink, 6) == b"before"
    assert relay.do("reset", ["reader-0"], toward, 0.0, after=10).met == 1
    sink.sendall(b"the other way nothing is counted")
    assert exactly(source, 32)
    source.sendall(b"0123456")
    assert exactly(sink, 7) == b"0123456"
    assert not relay.report(["reader-0"]).sprung
    source.sendall(b"789" + bytes(1 << 20))
    assert exactly(sink, 3) == b"789"
    with pytest.raises(ConnectionResetError):
        sink.recv(1)
    assert relay.report(["reader-0"]).sprung <= time.monotonic_ns()
    assert relay.report(["reader-0"]).sprung


def test_a_cut_after_some_bytes_withholds_the_rest_until_it_heals(relay: Relay, pair: Pair) -> None:
    relay.do("cut", ["reader-0"], "role", 0.0, after=3)
    pair.peer.sendall(b"abcdef")
    assert exactly(pair.role, 3) == b"abc"
    assert silent(pair.role)
    relay.do("heal", ["reader-0"], "both", 0.0)
    assert exactly(pair.role, 3) == b"def"


def test_a_half_open_after_no_bytes_at_all_strikes_at_once(relay: Relay, pair: Pair) -> None:
    relay.do("half-open", ["reader-0"], "peer", 0.0, after=0)
    until(lambda: bool(relay.report(["reader-0"]).sprung))
    pair.role.sendall(b"lost")
    assert silent(pair.peer)
    pair.peer.sendall(b"heard")
    assert exactly(pair.role, 5) == b"heard"


def test_bytes_are_counted_over_all_connections_of_a_role(relay: Relay, pair: Pair) -> None:
    relay.do("reset", ["reader-0"], "both", 0.0, after=4)
    role, peer = pair.connect()
    pair.peer.sendall(b"ab")
    assert exactly(pair.role, 2) == b"ab"
    role.sendall(b"cd")
    assert exactly(peer, 2) == b"cd"
    for sock in (pair.role, pair.peer, role, peer):
        with pytest.raises(ConnectionResetError):
            sock.recv(1)
    role.close()
    peer.close()


def test_a_heal_takes_a_trap_away(relay: Relay, pair: Pair) -> None:
    relay.do("cut", ["reader-0"], "role", 0.0, after=3)
    relay.do("heal", ["reader-0"], "both", 0.0)
    pair.peer.sendall(b"abcdef")
    assert exactly(pair.role, 6) == b"abcdef"
    assert not relay.report(["reader-0"]).sprung
