"""`refengine serve` as a process: it says where it listens, and ends in good order."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from .process import ENVIRONMENT, SECONDS, Client, Process, ended, read, ready, serving, until

_SERVE = """
import sys, threading
from refengine import cli
from refengine.engine import Delta, EngineFailed
from refengine.serving import command
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
    assert process.stdout
    assert process.stdout.readline() == "submitted\n"


def _refuses(client: Client) -> bool:
    try:
        socket.create_connection((client.host, client.port), SECONDS).close()
    except ConnectionResetError:
        return False
    except ConnectionRefusedError:
        return True
    return False


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
        assert (status, answer["error"]["code"]) == (503, "engine_closed")
        assert ended(process) == (0, "closed\n", "")


def test_a_signal_ends_it_while_the_engine_starts() -> None:
    with _serve(start=_HANGS) as (process, client):
        assert process.stdout
        assert process.stdout.readline() == "starting\n"
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
