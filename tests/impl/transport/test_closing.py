"""Ends that close: what is handed over, in what time, and that nobody is hurt by it."""

import gc
import os
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from refengine.base.cleanup import ServingThread
from refengine.base.security import Keys, SocketFactory
from refengine.transport import Client, Server, io_thread
from refengine.transport import client as client_module
from refengine.transport import server as server_module

from ..striking import Struck, start_struck
from .net import Ear, Net, once


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
            once(lambda client=client: client._session._cursor == 1)
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


def test_a_closed_line_leaves_no_thread_and_no_descriptor(undo: ExitStack):
    def state() -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    before = state()
    with ExitStack() as inner:
        net = Net(inner, ranks=2)
        net.post(0, 10)
        net.check(10)
    assert state() == before


def test_closed_while_its_thread_is_started_an_end_is_torn_downonce(
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
    once(lambda: client._keepalive is None and ("broken", 1) in net.ear.breaks)
    closing = threading.Thread(target=end.close, args=(60.0,))
    closing.start()
    once(lambda: end._close_by is not None)
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
    once(lambda: net.clients[1]._keepalive is None and ("broken", 1) in net.ear.breaks)
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
