"""`refengine serve` as a process: it says where it listens, and ends in good order."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from .process import (
    ENVIRONMENT,
    SECONDS,
    Client,
    Process,
    ask,
    ended,
    line_of,
    read,
    ready,
    serving,
    until,
)

_SERVE = """
import sys, threading
from refengine import cli
from refengine.engine import Delta, EngineFailed
from refengine.serving import command, server
from tests.impl.serving.fake_engine import FakeEngine

class Engine(FakeEngine):
    def __init__(self, settings):
        super().__init__(settings)
        {start}

    def submit(self, *args, **more):
        stream = super().submit(*args, **more)
        {submit}
        print("submitted", flush=True)
        return stream

    def close(self):
        super().close()
        print("closed", flush=True)

made, start = [], server.Server.start
server.Server.start = lambda self: (made.append(self), start(self))
command.Engine = Engine
sys.exit(cli.main(["serve", "--port", "0", *sys.argv[1:]]))
"""
_ANSWER = 'stream.put(Delta((79, 75), "length"))'
_LATER = f"threading.Timer(0.3, lambda: {_ANSWER}).start()"
_HANGS = 'print("starting", flush=True); threading.Event().wait()'
_FAILS = 'raise EngineFailed("core-0", "no memory")'


def _serve(
    *flags: str, start: str = "pass", submit: str = "pass"
) -> AbstractContextManager[tuple[Process, Client]]:
    script = _SERVE.format(start=start, submit=submit)
    return serving(sys.executable, "-c", script, *flags)


def _submitted(process: Process) -> None:
    assert line_of(process) == "submitted\n"


def _refuses(client: Client) -> bool:
    """Whether it takes nothing new, or is gone."""
    with contextlib.closing(Client(client.host, client.port, timeout=SECONDS)) as fresh:
        try:
            return ask(fresh, "GET", "/health/ready")[0] == 503
        except OSError:
            return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(number: signal.Signals) -> None:
    with _serve() as (process, client):
        ready(client)
        process.send_signal(number)
        assert ended(process) == (0, "closed\n", "")


def test_an_open_request_finishes_before_the_end() -> None:
    with _serve(submit=_LATER) as (process, client):
        ready(client)
        client.request("POST", "/v1/completions", '{"prompt": "a"}')
        _submitted(process)
        process.terminate()
        status, answer = read(client)
        assert (status, answer["choices"][0]["text"]) == (200, "OK")
        assert ended(process) == (0, "closed\n", "")


@pytest.mark.parametrize(("drain", "signals"), [("0", 1), ("1000", 2)])
def test_a_request_that_does_not_finish_is_told(drain: str, signals: int) -> None:
    with _serve("--drain", drain) as (process, client):
        ready(client)
        client.request("POST", "/v1/completions", '{"prompt": "a"}')
        _submitted(process)
        for _ in range(signals):
            process.terminate()
            until(lambda: _refuses(client), "the server to take no more")
        status, answer = read(client)
        assert (status, answer["error"]["code"]) == (503, "drain_over")
        assert ("told again" if signals == 2 else "0 s") in answer["error"]["message"]
        assert ended(process) == (0, "closed\n", "")


def test_while_it_drains_new_requests_are_refused_on_open_and_on_new_connections() -> None:
    with _serve("--drain", "100") as (process, client), contextlib.ExitStack() as stack:
        ready(client)
        busy, kept, fresh = (
            stack.enter_context(contextlib.closing(Client(client.host, client.port)))
            for _ in range(3)
        )
        assert ask(kept, "GET", "/health")[0] == 200
        busy.request("POST", "/v1/completions", '{"prompt": "a", "stream": true}')
        _submitted(process)
        process.terminate()
        until(lambda: _refuses(client), "the server to take no more")
        for asking in (kept, fresh):
            asking.request("POST", "/v1/completions", '{"prompt": "a"}')
            answer = asking.getresponse()
            assert (answer.status, answer.getheader("connection")) == (503, "close")
            assert 1 <= int(answer.getheader("retry-after") or 0) <= 100
            error = json.loads(answer.read())["error"]
            assert error["code"] == "draining"
            assert "100 s" in error["message"]
        assert ask(fresh, "GET", "/health/live")[0] == 200
        process.terminate()
        status, answer = read(busy)
        assert (status, answer["error"]["code"]) == (503, "drain_over")
        assert ended(process) == (0, "closed\n", "")


def test_an_answer_that_has_begun_when_the_drain_is_over_ends_with_an_error_event() -> None:
    with _serve("--drain", "0.2", submit="stream.put(Delta((79,)))") as (process, client):
        ready(client)
        client.request("POST", "/v1/completions", '{"prompt": "a", "stream": true}')
        _submitted(process)
        answer = client.getresponse()
        assert b'"text":"O"' in answer.readline()
        process.terminate()
        *_, last, done = answer.read().decode().split("data: ")
        assert (json.loads(last)["error"]["code"], done) == ("drain_over", "[DONE]\n\n")
        assert ended(process) == (0, "closed\n", "")


def test_a_client_that_does_not_read_holds_the_end_up_no_longer_than_the_drain() -> None:
    with _serve("--drain", "0.2", submit="stream.put(Delta((79,)))") as (process, client):
        ready(client)
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect((client.host, client.port))
            body = json.dumps({"prompt": "a" * (1 << 20), "echo": True, "stream": True})
            head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            deaf.sendall(f"{head}\r\n{body}".encode())
            _submitted(process)
            assert deaf.recv(1) == b"H"
            process.terminate()
            began = time.monotonic()
            assert ended(process)[:2] == (0, "closed\n")
            assert time.monotonic() - began < 0.2 + 10


@pytest.mark.parametrize("what", ["the engine", "the HTTP server"])
def test_what_ends_for_good_by_itself_ends_it_with_a_status(what: str) -> None:
    fails = (
        'threading.Timer(0.1, lambda: setattr(self, "failed", EngineFailed("core-0", "it died")))'
    )
    ends = "threading.Timer(0.1, lambda: server.Server.stop(made[0]))"
    with _serve(start=f"{fails if what == 'the engine' else ends}.start()") as (process, _):
        cause = {
            "the engine": "core-0 cannot serve: it died",
            "the HTTP server": "the HTTP server has ended by itself",
        }
        assert ended(process) == (70, "closed\n", f"refengine serve: {cause[what]}\n")


def test_a_signal_ends_it_while_the_engine_starts() -> None:
    with _serve(start=_HANGS) as (process, client):
        assert line_of(process) == "starting\n"
        client.request("GET", "/health")
        status, answer = read(client)
        assert (status, answer["alive"], answer["ready"]) == (503, True, False)
        process.terminate()
        assert ended(process) == (0, "", "")


def test_an_engine_that_does_not_start_is_one_line() -> None:
    with _serve(start=_FAILS) as (process, _):
        expected = "refengine could not do its work: core-0 cannot serve: no memory\n"
        assert ended(process) == (70, "", expected)


def test_a_port_that_is_taken_is_one_line_and_no_engine_is_started() -> None:
    with _serve() as (_, client):
        script = _SERVE.format(start='print("started")', submit="pass")
        second = subprocess.run(
            [sys.executable, "-c", script, "--port", str(client.port)],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            timeout=SECONDS,
            check=False,
        )
        assert (second.returncode, second.stdout) == (70, "")
        assert "in use" in second.stderr
        assert second.stderr.count("\n") == 1


def test_who_listens_to_the_world_without_a_key_is_warned() -> None:
    with _serve("--host", "0.0.0.0", start=_FAILS) as (process, _):
        _, _, err = ended(process)
        assert "reachable from elsewhere" in err.splitlines()[0]


def test_with_a_key_only_who_sends_it_is_served(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    with _serve("--api-key-file", str(tmp_path / "key"), submit=_ANSWER) as (process, client):
        ready(client)
        for headers, expected in (({}, 401), ({"Authorization": "Bearer secret"}, 200)):
            client.request("POST", "/v1/completions", '{"prompt": "a"}', headers)
            assert read(client)[0] == expected
        process.terminate()
        assert ended(process)[0] == 0
