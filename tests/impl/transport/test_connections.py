"""Lines between a hub and spokes: in order, once, through breaks; ends are told in time."""

import os
import signal
import threading
import time
from contextlib import ExitStack

import pytest
import zmq

from refengine.base.security import Keys, SocketFactory
from refengine.transport import Client, Server

from .net import SILENCE, Ear, Net, once


def test_messages_of_both_directions_arrive_once_and_in_order(undo: ExitStack):
    net = Net(undo, ranks=3)
    for rank in (1, 2, 3):
        net.post(0, 300, rank)
    for rank in (1, 2, 3):
        net.check(300, rank)


def test_a_large_body_arrives_whole(undo: ExitStack):
    net = Net(undo)
    body = bytes(range(256)) * (64 << 10)
    net.server.post(1, body)
    net.ears[1].until(lambda: net.ears[1].got.get(0))
    assert net.ears[1].got[0] == [body]


@pytest.mark.parametrize("resets", [1, 4])
def test_a_reset_loses_and_repeats_nothing(undo: ExitStack, resets: int):
    net = Net(undo)
    for turn in range(resets):
        net.post(turn * 100, 60)
        net.relays[1].reset()
        net.post(turn * 100 + 60, 40)
    net.check(resets * 100)
    assert not net.ear.ends
    assert not net.ears[1].ends


@pytest.mark.parametrize("ways", [("in",), ("out",), ("in", "out")])
def test_a_cut_shorter_than_the_silence_loses_nothing(undo: ExitStack, ways: tuple[str, ...]):
    net = Net(undo, peer_timeout=SILENCE * 2)  # the other second is for a busy machine
    net.post(0, 50)
    net.relays[1].cut(*ways)
    net.post(50, 50)
    threading.Event().wait(SILENCE * 1.2)  # the length of the cut is what is tested
    net.relays[1].heal()
    net.post(100, 50)
    net.check(150)
    assert not net.ear.ends
    assert not net.ears[1].ends


@pytest.mark.parametrize("held", [(), ("in",)])
def test_a_hello_that_messages_overtake_is_a_good_one(undo: ExitStack, held: tuple[str, ...]):
    net = Net(undo, peer_timeout=SILENCE * 2)
    relay, ear = net.relays[1], net.ears[1]
    net.clients[1].post(0, b"first")
    net.ear.until(lambda: net.ear.got.get(1))
    relay.cut("out")
    relay.cut_later()
    for n in range(50):
        net.server.post(1, b"%d" % n)
    once(lambda: relay.accepted > 1)  # a connection is tried beside the quiet one
    relay.cut_one(0, *held)
    relay.held = set()
    ear.until(lambda: len(ear.got.get(0, ())) == 50)
    session = net.server._peers[1].session  # pyright: ignore[reportPrivateUsage] # only read
    if not held:
        once(lambda: session.handed_over)
    relay.cut_one(1)
    net.ear.until(lambda: ("back", 1) in net.ear.breaks or net.ear.refusals)
    assert not net.ear.refusals
    relay.heal()
    once(lambda: session.handed_over)
    net.server.post(1, b"last")
    net.clients[1].post(0, b"last")
    ear.until(lambda: len(ear.got[0]) == 51)
    net.ear.until(lambda: net.ear.got[1] == [b"first", b"last"])
    assert ear.got[0] == [*(b"%d" % n for n in range(50)), b"last"]
    assert not net.ear.ends
    assert not ear.ends


def test_a_cut_past_the_silence_is_told_to_both_ends(undo: ExitStack):
    net = Net(undo)
    began = time.monotonic()
    net.relays[1].cut()
    net.ear.until(lambda: net.ear.ends)
    net.ears[1].until(lambda: net.ears[1].ends)
    assert net.ear.ends[1].kind == net.ears[1].ends[0].kind == "silent"
    for ear, rank in ((net.ear, 1), (net.ears[1], 0)):
        assert ear.ended_at[rank] - began >= SILENCE - 0.5


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_half_open_connection_is_told_to_both_ends(undo: ExitStack, way: str):
    net = Net(undo)
    net.relays[1].half_open(way)
    net.ear.until(lambda: net.ear.ends, SILENCE * 4)
    net.ears[1].until(lambda: net.ears[1].ends, SILENCE * 4)


def test_a_hub_tells_of_a_break_at_once_and_of_the_return(undo: ExitStack):
    net = Net(undo)
    net.relays[1].reset()
    net.ear.until(lambda: net.ear.breaks == [("broken", 1), ("back", 1)])


def test_a_hub_that_is_killed_is_told_within_two_seconds(undo: ExitStack):
    keys = Keys.fresh()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        server = Server(
            "127.0.0.1", 0, [1], keys, Ear(), sockets=SocketFactory(), peer_timeout=SILENCE
        )
        os.write(write, server.address.encode())
        signal.pause()
        os._exit(0)
    address = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    ear = Ear()
    client = Client(address, 1, keys, ear, sockets=SocketFactory(), peer_timeout=10.0)
    undo.callback(client.close, 0.0)
    ear.until(lambda: ear.arrivals)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    ear.until(lambda: ear.ends)
    took = time.monotonic() - began
    os.waitpid(pid, 0)
    assert ear.ends[0].kind == "died"
    assert ear.ends[0].pid == pid
    assert took < 7.0, "2 s are promised, the rest is for a busy machine"


def test_nobody_welcomes_us_in_time(undo: ExitStack):
    net = Net(undo)
    address = net.server.address
    net.server.close(0.0)
    _, ear = net.client(1, address, patience=0.3)
    ear.until(lambda: ear.ends)
    assert ear.ends[0].kind == "silent"


def test_a_second_claimant_and_an_unknown_rank_are_refused(undo: ExitStack):
    net = Net(undo)
    for rank, words in ((1, "another party"), (7, "unknown")):
        _, ear = net.client(rank, net.server.address)
        ear.until(lambda ear=ear: ear.refusals)
        assert words in ear.refusals[0][1]
        net.ear.until(lambda rank=rank: net.ear.refusals and net.ear.refusals[-1][0] == rank)
    net.post(0, 10)
    net.check(10)


class TestAStranger:
    """SPEC S3: no message for it, none from it, and the members go on."""

    def test_without_the_key_is_never_welcomed(self, undo: ExitStack):
        net = Net(undo)
        _, ear = net.client(1, net.server.address, Keys.fresh(), patience=0.5)
        ear.until(lambda: ear.ends)
        assert not ear.arrivals
        assert net.ear.arrivals == [1]
        assert not net.ear.refusals

    @pytest.mark.parametrize("kind", [zmq.SUB, zmq.DEALER, zmq.REQ])
    def test_without_encryption_hears_nothing(self, undo: ExitStack, kind: int):
        net = Net(undo)
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(kind)
        socket.setsockopt(zmq.LINGER, 0)
        if kind == zmq.SUB:
            socket.setsockopt(zmq.SUBSCRIBE, b"")
        else:
            socket.setsockopt(zmq.SNDTIMEO, 100)
        socket.connect(net.server.address)
        if kind != zmq.SUB:
            socket.send(b"\x01" + b"RFL1" + bytes(80))
        net.post(0, 20)
        net.check(20)
        assert not socket.poll(300)
        context.destroy(linger=0)

    def test_with_the_servers_public_key_alone_is_no_member(self, undo: ExitStack):
        net = Net(undo)
        forged = Keys.fresh()
        real, _ = net.keys.curve("listens")

        class Forged(Keys):
            def curve(self, party: str) -> tuple[bytes, bytes]:
                return (real, b"") if party == "listens" else forged.curve(party)

        _, ear = net.client(1, net.server.address, Forged(forged.secret), patience=0.5)
        ear.until(lambda: ear.ends)
        assert not ear.arrivals


def test_nothing_listens_wider_than_asked_for(undo: ExitStack):
    net = Net(undo)
    assert net.server.address.startswith("tcp://127.0.0.1:")


def test_ipv6_addresses_are_bracketed_and_work(undo: ExitStack):
    keys, ear, far = Keys.fresh(), Ear(), Ear()
    server = Server("::1", 0, [1], keys, ear, sockets=SocketFactory())
    undo.callback(server.close, 0.0)
    assert server.address.startswith("tcp://[::1]:")
    undo.callback(Client(server.address, 1, keys, far, sockets=SocketFactory()).close, 0.0)
    ear.until(lambda: ear.arrivals)


def test_a_reminder_is_heeded_once_and_then_there_may_be_another(undo: ExitStack):
    client, heeded = Net(undo, peer_timeout=60.0).clients[1], list[str]()
    client.remind(0.0, lambda: heeded.append("first"))
    once(lambda: heeded == ["first"])
    client.remind(60.0, lambda: heeded.append("late"))
    client.remind(0.0, lambda: heeded.append("second"))
    assert client._reminder is not None
    client._reminder = None
    client.remind(0.0, lambda: heeded.append("third"))
    once(lambda: heeded == ["first", "third"])
