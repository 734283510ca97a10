"""The server at its socket: where it listens, who hangs up, what ends with it."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import select
import socket
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from refengine.base.security import SocketFactory
from refengine.engine import Delta
from refengine.serving.app import application
from refengine.serving.server import Connection, Server
from refengine.serving.service import Service

from ..striking import start_struck
from .exchange import SECONDS
from .fake_engine import FakeEngine, spelled


@contextlib.contextmanager
def _serving(engine: FakeEngine, **given: Any) -> Generator[tuple[Server, queue.SimpleQueue[bool]]]:
    service = Service()
    service.engine = engine
    ended: queue.SimpleQueue[bool] = queue.SimpleQueue()
    server = _server(application(service), 0, lambda: ended.put(True), **given)
    try:
        server.start()
        yield server, ended
    finally:
        engine.close()
        assert server.close(SECONDS)


def _server(app: Any, port: int, ended: Callable[[], None] = lambda: None, **given: Any) -> Server:
    listener = SocketFactory().listen_tcp("127.0.0.1", port)
    return Server(app, listener, patience=SECONDS, ended=ended, **given)


def _connection(server: Server) -> http.client.HTTPConnection:
    where = urlsplit(server.address)
    assert where.hostname
    return http.client.HTTPConnection(where.hostname, where.port, timeout=SECONDS)


def _ask(server: Server, **asked: Any) -> tuple[http.client.HTTPConnection, Any]:
    connection = _connection(server)
    connection.request("POST", "/v1/completions", json.dumps(asked))
    return connection, connection.getresponse


def _until(met: Callable[[], object]) -> None:
    end, tick = threading.Event(), 0.01
    for _ in range(int(SECONDS / tick)):
        if met():
            return
        end.wait(tick)
    raise AssertionError("it did not come to it in time")


def test_it_listens_at_the_one_address_that_was_asked_for() -> None:
    with _serving(FakeEngine()) as (server, _):
        port = urlsplit(server.address).port
        assert port
        listening = {
            fields[1]
            for table in ("/proc/net/tcp", "/proc/net/tcp6")
            for line in Path(table).read_text().splitlines()[1:]
            if (fields := line.split())[3] == "0A" and fields[1].endswith(f":{port:04X}")
        }
        assert listening == {f"0100007F:{port:04X}"}


def test_idle_connections_keep_nobody_out_and_busy_ones_are_not_cut_off() -> None:
    engine = FakeEngine()
    with _serving(engine, connections=20) as (server, _):
        busy, response = _ask(server, prompt="a", stream=True)
        _until(lambda: engine.streams)
        before = len(list(Path("/proc/self/fd").iterdir()))
        address = (urlsplit(server.address).hostname, urlsplit(server.address).port)
        idle = [socket.create_connection(address, SECONDS) for _ in range(200)]
        _until(lambda: sum(_hung_up(each) for each in idle) >= 180)
        open_now = len(list(Path("/proc/self/fd").iterdir())) - before
        assert open_now <= 200 + 20  # both ends are this process's
        health = _connection(server)
        health.request("GET", "/health")
        assert health.getresponse().status == 200
        next(iter(engine.streams.values())).put(Delta((72,), "length"))
        assert b'"text":"H"' in response().read()
        for each in (busy, health, *idle):
            each.close()


def _hung_up(line: socket.socket) -> bool:
    return bool(select.select([line], [], [], 0)[0])


def test_it_answers_and_ends_leaving_the_port_free() -> None:
    with _serving(FakeEngine(script=spelled("yes"))) as (server, ended):
        connection, response = _ask(server, prompt="a")
        assert json.loads(response().read())["choices"][0]["text"] == "yes"
        connection.close()
    assert ended.get(timeout=SECONDS)
    port = urlsplit(server.address).port
    assert port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), SECONDS)


def test_a_port_that_is_taken_is_an_error() -> None:
    with _serving(FakeEngine()) as (server, _), pytest.raises(OSError, match="in use"):
        _server(application(Service()), urlsplit(server.address).port or 0)


def test_tokens_are_sent_as_they_come() -> None:
    engine = FakeEngine()
    with _serving(engine) as (server, _):
        connection, response = _ask(server, prompt="a", stream=True)
        _until(lambda: engine.streams)
        stream = next(iter(engine.streams.values()))
        stream.put(Delta((72,)))
        answer = response()
        assert json.loads(answer.readline().removeprefix(b"data: "))["choices"][0]["text"] == "H"
        stream.put(Delta((73,), "length"))
        assert b'"text":"I"' in answer.read()
        connection.close()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_connection_that_closes_cancels(streamed: bool) -> None:
    engine = FakeEngine()
    with _serving(engine) as (server, _):
        connection, _response = _ask(server, prompt="a", stream=streamed)
        _until(lambda: engine.streams)
        connection.close()
        _until(lambda: engine.cancelled)


def test_an_open_request_is_answered_after_the_stop_and_nothing_new_is_taken() -> None:
    engine = FakeEngine()
    with _serving(engine) as (server, ended):
        connection, response = _ask(server, prompt="a")
        _until(lambda: engine.streams)
        server.stop()
        _until(lambda: _refuses(server))
        next(iter(engine.streams.values())).put(Delta(tuple(b"late"), "length"))
        assert json.loads(response().read())["choices"][0]["text"] == "late"
        connection.close()
        assert ended.get(timeout=SECONDS)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_request_that_is_open_when_the_engine_closes_is_told(streamed: bool) -> None:
    engine = FakeEngine()
    with _serving(engine) as (server, ended):
        connection, response = _ask(server, prompt="a", stream=streamed)
        _until(lambda: engine.streams)
        server.stop()
        engine.close()
        answer = response()
        assert (answer.status, b"engine_closed" in answer.read()) == (503, True)
        connection.close()
        assert ended.get(timeout=SECONDS)


def test_half_open_connections_cost_nobody_an_answer() -> None:
    with _serving(FakeEngine(script=spelled("yes"))) as (server, _):
        where = urlsplit(server.address)
        silent = [socket.create_connection((where.hostname, where.port)) for _ in range(20)]
        for connection in silent[10:]:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n")
        connection, response = _ask(server, prompt="a")
        assert response().status == 200
        connection.close()
        for connection in silent:
            connection.close()


@pytest.mark.parametrize("head", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_that_asks_nothing_in_time_is_closed(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "patience", 0.1)
    with _serving(FakeEngine()) as (server, _):
        where = urlsplit(server.address)
        with socket.create_connection((where.hostname, where.port), SECONDS) as silent:
            silent.sendall(head)
            assert silent.recv(1) == b""


def test_a_connection_that_goes_on_asking_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "patience", 0.05)
    with _serving(FakeEngine()) as (server, _):
        connection = _connection(server)
        connection.connect()
        first = connection.sock
        for _ in range(12):
            connection.request("GET", "/health/live")
            assert connection.getresponse().read()
            assert not threading.Event().wait(0.02)
        assert connection.sock is first
        connection.close()


def test_closed_while_its_thread_is_started_it_does_not_serve() -> None:
    """A signal's exception may strike within `start`, when the thread has no `ident` yet (R9)."""
    ended: list[bool] = []
    server = _server(application(Service()), 0, lambda: ended.append(True))
    with start_struck(server._thread):
        try:
            server.start()
        finally:
            assert server.close(SECONDS)
    assert ended == []


def test_a_request_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "patience", 0.02)
    engine = FakeEngine()
    with _serving(engine) as (server, _):
        connection, response = _ask(server, prompt="a", stream=True)
        _until(lambda: engine.streams)
        stream = next(iter(engine.streams.values()))
        stream.put(Delta((72,)))
        answer = response()
        assert not threading.Event().wait(0.2)
        stream.put(Delta((73,), "length"))
        assert answer.read().endswith(b"data: [DONE]\n\n")
        connection.close()


def _refuses(server: Server) -> bool:
    with contextlib.closing(_connection(server)) as connection:
        try:
            connection.connect()
        except OSError:
            return True
    return False
