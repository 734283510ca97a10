"""Lines between a hub and spokes: in order, once, through breaks; ends are told in time."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zmq

from refengine.base.cleanup import ServingThread
from refengine.base.security import Keys, SocketFactory
from refengine.transport import Client, Gone, Server, io_thread
from refengine.transport import client as client_module
from refengine.transport import server as server_module

from ..relay import Relay
from ..striking import Struck, start_struck

SILENCE = 2.0


class Ear:
    """A listener that keeps what it hears and wakes whoever waits for it."""

    def __init__(self) -> None:
        self.arrivals: list[int] = []
        self.breaks: list[tuple[str, int]] = []
        self.got: dict[int, list[bytes]] = {}
        self.ends: dict[int, Gone] = {}
        self.ended_at: dict[int, float] = {}
        self.refusals: list[tuple[int, str]] = []
        self._news = threading.Condition()

    def arrived(self, rank: int) -> None:
        with self._news:
            self.arrivals.append(rank)
            self._news.notify_all()

    def message(self, rank: int, body: memoryview) -> None:
        with self._news:
            self.got.setdefault(rank, []).append(bytes(body))
            self._news.notify_all()

    def gone(self, rank: int, how: Gone) -> None:
        with self._news:
            assert rank not in self.ends
            self.ends[rank] = how
            self.ended_at[rank] = time.monotonic()
            self._news.notify_all()

    def broken(self, rank: int) -> None:
        with self._news:
            self.breaks.append(("broken", rank))
            self._news.notify_all()

    def back(self, rank: int) -> None:
        with self._news:
            self.breaks.append(("back", rank))
            self._news.notify_all()

    def refused(self, rank: int, reason: str) -> None:
        with self._news:
            self.refusals.append((rank, reason))
            self._news.notify_all()

    def until(self, done: Callable[[], object], within: float = 10.0) -> None:
        with self._news:
            assert self._news.wait_for(done, within), vars(self)


class Net:
    """A hub and spokes, each through a relay of its own."""

    def __init__(
        self,
        undo: ExitStack,
        ranks: int = 1,
        host: str = "127.0.0.1",
        peer_timeout: float = SILENCE,
    ) -> None:
        self.undo, self.keys, self.ear = undo, Keys.fresh(), Ear()
        self.peer_timeout = peer_timeout
        self.server = Server(
            host,
            0,
            range(1, ranks + 1),
            self.keys,
            self.ear,
            sockets=SocketFactory(),
            peer_timeout=peer_timeout,
        )
        undo.callback(self.server.close, 0.0)
        self.relays: dict[int, Relay] = {}
        self.ears: dict[int, Ear] = {}
        self.clients: dict[int, Client] = {}
        for rank in range(1, ranks + 1):
            self.relays[rank] = Relay(self.server.address)
            undo.callback(self.relays[rank].close)
            self.clients[rank], self.ears[rank] = self.client(rank, self.relays[rank].address)
        self.ear.until(lambda: len(self.ear.arrivals) == ranks)
        for ear in self.ears.values():
            ear.until(lambda ear=ear: ear.arrivals)

    def client(
        self, rank: int, address: str, keys: Keys | None = None, patience: float | None = None
    ) -> tuple[Client, Ear]:
        ear = Ear()
        client = Client(
            address,
            rank,
            keys or self.keys,
            ear,
            sockets=SocketFactory(),
            peer_timeout=self.peer_timeout,
            patience=patience,
        )
        self.undo.callback(client.close, 0.0)
        return client, ear

    def check(self, count: int, rank: int = 1) -> None:
        """Both directions have had messages 0 … count-1, in order, once."""
        expected = [b"%d" % n for n in range(count)]
        self.ears[rank].until(lambda: len(self.ears[rank].got.get(0, ())) >= count)
        self.ear.until(lambda: len(self.ear.got.get(rank, ())) >= count)
        assert self.ears[rank].got[0] == expected
        assert self.ear.got[rank] == expected

    def post(self, first: int, count: int, rank: int = 1) -> None:
        for n in range(first, first + count):
            self.server.post(rank, b"%d" % n)
            self.clients[rank].post(0, b"%d" % n)


@pytest.fixture
def undo() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


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


def _once(done: Callable[[], object], within: float = 10.0) -> None:
    until = time.monotonic() + within
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


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
    _once(lambda: relay.accepted > 1)  # a connection is tried beside the quiet one
    relay.cut_one(0, *held)
    relay.held = set()
    ear.until(lambda: len(ear.got.get(0, ())) == 50)
    session = net.server._peers[1].session  # pyright: ignore[reportPrivateUsage] # only read
    if not held:
        _once(lambda: session.handed_over)
    relay.cut_one(1)
    net.ear.until(lambda: ("back", 1) in net.ear.breaks or net.ear.refusals)
    assert not net.ear.refusals
    relay.heal()
    _once(lambda: session.handed_over)
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


def test_a_goodbye_hands_over_what_was_posted_and_tells_of_no_loss(undo: ExitStack):
    net = Net(undo)
    net.post(0, 500)
    net.server.close(5.0)
    ear = net.ears[1]
    ear.until(lambda: ear.ends)
    assert ear.ends[0].kind == "closed"
    assert ear.ends[0].lost == 0
    assert ear.got[0] == [b"%d" % n for n in range(500)]


def test_a_goodbye_that_gives_up_says_how_many_were_lost(undo: ExitStack):
    net = Net(undo)
    net.relays[1].cut("out")
    net.post(0, 20)
    net.server.close(0.1)
    net.relays[1].heal()
    ear = net.ears[1]
    ear.until(lambda: ear.ends)
    how = ear.ends[0]
    assert how.kind in ("closed", "died")
    assert how.kind == "died" or len(ear.got.get(0, ())) + how.lost == 20


def test_a_spoke_that_leaves_is_gone_by_its_own_word(undo: ExitStack):
    net = Net(undo)
    net.clients[1].post(0, b"last")
    net.clients[1].close(5.0)
    net.ear.until(lambda: net.ear.ends)
    assert net.ear.ends[1].kind == "closed"
    assert net.ear.got[1] == [b"last"]


def test_a_hub_tells_of_a_break_at_once_and_of_the_return(undo: ExitStack):
    net = Net(undo)
    net.relays[1].reset()
    net.ear.until(lambda: net.ear.breaks == [("broken", 1), ("back", 1)])


@pytest.mark.parametrize("ways", ["out", "in"])
def test_a_close_ends_in_time_though_nobody_reads(
    undo: ExitStack, ways: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(io_thread, "_FLUSH_MOST", 60.0)
    net = Net(undo)
    net.relays[1].cut(ways)
    net.server.post(1, bytes(8 << 20))
    net.clients[1].post(0, bytes(8 << 20))
    for end in (net.server, net.clients[1]):
        began = time.monotonic()
        end.close(0.5)
        assert time.monotonic() - began < 30.0


def _close_amid_traffic(closes: str) -> None:
    """Break the connection of an end that says goodbye, and cannot get it out."""
    for _ in range(8):
        with ExitStack() as undo:
            net = Net(undo, peer_timeout=0.4)
            if closes == "hub":
                net.relays[1].cut("out")
                net.server.post(1, bytes(8 << 20))
                end, send = net.server, partial(net.clients[1].post, 0, b"more")
            else:
                net.relays[1].cut("in")
                net.clients[1].post(0, bytes(8 << 20))
                end, send = net.clients[1], partial(net.server.post, 1, b"more")
            closing = threading.Thread(target=end.close, args=(0.0,))
            closing.start()
            before = net.relays[1].forwarded
            while closing.is_alive():
                send()
                if net.relays[1].forwarded > before + 1000:
                    net.relays[1].reset()
                closing.join(0.001)


class BreaksAsItCloses:
    """A socket whose connection breaks right after it was closed, in libzmq's next step."""

    def __init__(self, socket: Any, breaks: Callable[[], None]) -> None:
        self._socket, self._breaks = socket, breaks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def close(self, linger: int) -> None:
        self._socket.close(linger=linger)
        self._breaks()


def _close_amid_a_message() -> None:
    """Close an end of whose message one part is on its way, and the rest is not."""
    for _ in range(12):
        with ExitStack() as undo:
            net = Net(undo, peer_timeout=60.0)
            client, relay = net.clients[1], net.relays[1]
            relay.cut("in")
            client.post(0, bytes(8 << 20))
            _once(lambda client=client: client._session._cursor == 1)
            client._current = BreaksAsItCloses(client._current, relay.reset)
            client.close(0.0)


def _status_of(act: Callable[[], None]) -> int:
    """Status of a child that does this; libzmq aborts the whole process."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def test_a_break_amid_a_message_that_a_close_gives_up_aborts_nobody():
    assert _status_of(_close_amid_a_message) == 0


@pytest.mark.parametrize("closes", ["hub", "spoke"])
def test_a_break_during_a_goodbye_aborts_nobody(closes: str):
    status = _status_of(partial(_close_amid_traffic, closes))
    assert status == 0, "libzmq aborts where a heartbeat meets a broken connection"


@pytest.mark.parametrize("closes", ["hub", "spoke"])
def test_a_close_ends_once_the_far_end_has_heard_of_it(
    undo: ExitStack, closes: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(io_thread, "_FLUSH_MOST", 60.0)
    net = Net(undo)
    end = net.server if closes == "hub" else net.clients[1]
    began = time.monotonic()
    end.close(60.0)
    assert time.monotonic() - began < 30.0


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


def test_a_closed_line_leaves_no_thread_and_no_descriptor(undo: ExitStack):
    def state() -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    before = state()
    with ExitStack() as inner:
        net = Net(inner, ranks=2)
        net.post(0, 10)
        net.check(10)
    assert state() == before


def test_closed_while_its_thread_is_started_an_end_is_torn_down_once(
    undo: ExitStack, caplog: pytest.LogCaptureFixture
):
    """A signal's exception may strike within `start`, when the thread has no `ident` yet (R9)."""
    net = Net(undo)
    late = Client(net.server.address, 1, net.keys, Ear(), sockets=SocketFactory(), starts=False)
    with start_struck(late._thread):
        try:
            late.start()
        finally:
            late.close(0.0)
    assert caplog.messages == []


@pytest.mark.parametrize("begun", [False, True])
def test_a_constructor_struck_at_the_thread_s_start_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, begun: bool
):
    gc.collect()
    before, threads = len(list(Path("/proc/self/fd").iterdir())), list[threading.Thread]()
    start = ServingThread.start

    def struck(thread: ServingThread) -> None:
        threads.append(thread)
        if begun:
            start(thread)
        raise Struck

    monkeypatch.setattr(ServingThread, "start", struck)
    with pytest.raises(Struck):
        Server("127.0.0.1", 0, [1], Keys.fresh(), Ear(), sockets=SocketFactory())
    monkeypatch.undo()
    if not begun:
        start(threads[0])
    threads[0].join(10)
    del threads[:]
    gc.collect()
    assert caplog.messages == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_reminder_is_heeded_once_and_then_there_may_be_another(undo: ExitStack):
    client, heeded = Net(undo, peer_timeout=60.0).clients[1], list[str]()
    client.remind(0.0, lambda: heeded.append("first"))
    _once(lambda: heeded == ["first"])
    client.remind(60.0, lambda: heeded.append("late"))
    client.remind(0.0, lambda: heeded.append("second"))
    assert client._reminder is not None
    client._reminder = None
    client.remind(0.0, lambda: heeded.append("third"))
    _once(lambda: heeded == ["first", "third"])


@pytest.mark.parametrize("closes", ["hub", "spoke"])
def test_a_goodbye_waits_for_a_connection_that_is_made_again(
    undo: ExitStack, closes: str, monkeypatch: pytest.MonkeyPatch
):
    for module in (client_module, server_module):
        monkeypatch.setattr(module, "RETURN_WITHIN", 30.0)  # for a busy machine
    net = Net(undo, peer_timeout=60.0)
    relay, (end, far, rank) = net.relays[1], _ends(net, closes)
    client = net.clients[1]
    relay.cut_later()
    relay.reset()
    _once(lambda: client._keepalive is None and ("broken", 1) in net.ear.breaks)
    closing = threading.Thread(target=end.close, args=(60.0,))
    closing.start()
    _once(lambda: end._close_by is not None)
    relay.heal()
    far.until(lambda: far.ends)
    assert (far.ends[rank].kind, far.ends[rank].lost) == ("closed", 0)
    closing.join(10)
    assert not closing.is_alive()


@pytest.mark.parametrize("closes", ["hub", "spoke"])
def test_a_goodbye_waits_no_longer_than_a_return_may_take(undo: ExitStack, closes: str):
    net = Net(undo)
    end, far, rank = _ends(net, closes)
    net.relays[1].cut_later()
    net.relays[1].reset()
    _once(lambda: net.clients[1]._keepalive is None and ("broken", 1) in net.ear.breaks)
    began = time.monotonic()
    end.close(60.0)
    assert time.monotonic() - began < 20.0
    far.until(lambda: far.ends)
    assert far.ends[rank].kind == "died"


def test_a_goodbye_goes_by_the_connection_that_is_tried_beside_a_quiet_one_too(
    undo: ExitStack, monkeypatch: pytest.MonkeyPatch
):
    net, judge = Net(undo, peer_timeout=60.0), Keys.match
    relay, client = net.relays[1], net.clients[1]

    def hold_the_answer(keys: Keys, offered: bytes) -> bool:
        relay.cut("out")
        return judge(keys, offered)

    monkeypatch.setattr(Keys, "match", hold_the_answer)
    client._keepalive.quiet = lambda: 30.0
    net.ear.until(lambda: ("back", 1) in net.ear.breaks)
    client.close(5.0)
    net.ear.until(lambda: net.ear.ends)
    assert net.ear.ends[1].kind == "closed"


def _ends(net: Net, closes: str) -> tuple[Any, Ear, int]:
    """The end that closes, the ear of the other one, and the rank that closes."""
    return (net.server, net.ears[1], 0) if closes == "hub" else (net.clients[1], net.ear, 1)


def test_a_reset_that_takes_an_answer_with_it_is_no_end(
    undo: ExitStack, monkeypatch: pytest.MonkeyPatch
):
    for module in (client_module, server_module):
        monkeypatch.setattr(module, "RETURN_WITHIN", 1.9)  # the rest is for a busy machine
    net, judge = Net(undo, peer_timeout=10.0), Keys.match
    relay = net.relays[1]

    def hold_the_answer(keys: Keys, offered: bytes) -> bool:
        relay.cut("out")
        return judge(keys, offered)

    with monkeypatch.context() as patch:
        patch.setattr(Keys, "match", hold_the_answer)
        relay.reset()
        net.ear.until(lambda: ("back", 1) in net.ear.breaks)
    relay.reset()
    relay.heal()
    net.post(0, 20)
    net.check(20)
    assert not net.ear.ends
    assert not net.ears[1].ends
