"""Two front ends around one engine: each dies, stops and drains without the other's clients."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import sys
import time

import pytest

from ..process import SECONDS, Client, ended, serving, until
from .server import (
    FINISH,
    FLOOD,
    NO_FRONT_ENDS,
    WHOLE,
    Streamed,
    Tree,
    client_of,
    front_ends,
    look,
    metrics,
    pids,
    said,
    stopped,
    streams_of_each,
    two_front_ends,
)

_REFENGINE = (sys.executable, "-m", "refengine.cli")
_TORN = (http.client.HTTPException, ConnectionError)


def test_a_killed_front_end_tears_its_own_answers_alone_and_comes_back() -> None:
    with two_front_ends() as (process, client):
        killed = pids(client)
        with streams_of_each(client, process) as (torn, whole):
            began = time.monotonic()
            os.kill(killed["front-end-0"], signal.SIGKILL)
            with pytest.raises(_TORN):
                torn.rest()
            assert (torn.text, torn.done) == ("first", False)
            said(process, "cancelled")
            assert time.monotonic() - began < 10
            process.send_signal(FINISH)
            whole.rest()
        assert (whole.text, whole.finish, whole.done) == (WHOLE, "length", True)
        until(lambda: _another(client, "front-end-0", killed), "another front end")
        assert pids(client)["front-end-1"] == killed["front-end-1"]
        with client_of(client, "front-end-0") as anew:
            again = Streamed(anew, process)
            process.send_signal(FINISH)
            assert again.rest().text == WHOLE
        assert 'refengine_restarts_total{part="front-end-0"} 1.0' in metrics(client)
        process.terminate()
        status, out, err = ended(process)
        assert (status, out) == (0, "")
        assert err.startswith("front-end-0 was killed by SIGKILL"), err
        assert len(err.splitlines()) == 1


def test_at_the_drain_answers_end_whole_and_each_front_end_refuses_what_is_new() -> None:
    with (
        two_front_ends("--drain", "100") as (process, client),
        streams_of_each(client, process) as streams,
        client_of(client, "front-end-0") as one,
        client_of(client, "front-end-1") as other,
    ):
        process.terminate()
        for idle in (one, other):
            until(lambda: look(client, "GET", "/health/ready")[0] == 503, "the drain")
            idle.request("POST", "/v1/completions", '{"prompt": "a"}')
            answer = idle.getresponse()
            assert (answer.status, answer.getheader("connection")) == (503, "close")
            assert b'"draining"' in answer.read()
        process.send_signal(FINISH)
        assert [stream.rest().text for stream in streams] == [WHOLE, WHOLE]
        assert ended(process) == (0, "", "")
    _nobody_listens(client)


@pytest.mark.full
def test_at_the_end_of_the_drain_answers_of_each_front_end_end_with_an_error_event() -> None:
    with (
        two_front_ends("--drain", "0.2") as (process, client),
        streams_of_each(client, process) as streams,
    ):
        process.terminate()
        for stream in streams:
            stream.rest()
            assert stream.error is not None
            assert (stream.error["code"], stream.finish, stream.done) == ("drain_over", None, True)
        assert ended(process)[0] == 0


def test_a_stopped_front_end_holds_up_nobody_and_its_flood_is_cut_off() -> None:
    with two_front_ends() as (process, client), client_of(client, "front-end-0") as one:
        flooded = Streamed(one, process)
        with stopped(pids(client)["front-end-0"]):
            process.send_signal(FLOOD)
            said(process, "cancelled")
            with contextlib.closing(Client(client.host, client.port, timeout=SECONDS)) as other:
                beside = Streamed(other, process)
                process.send_signal(FINISH)
                assert beside.rest().text == WHOLE
        flooded.rest()
        assert flooded.error is not None
        assert (flooded.error["code"], flooded.finish) == ("request_failed", None)
        assert "did not take" in flooded.error["message"]
        with client_of(client, "front-end-0") as one_again:
            again = Streamed(one_again, process)
            process.send_signal(FINISH)
            assert again.rest().text == WHOLE
        process.terminate()
        assert ended(process)[:2] == (0, "")


def test_one_that_stays_stopped_is_replaced() -> None:
    with (
        two_front_ends("--step-timeout", "3") as (process, client),
        client_of(client, "front-end-0") as one,
    ):
        torn, before = Streamed(one, process), pids(client)
        os.kill(before["front-end-0"], signal.SIGSTOP)
        with pytest.raises(_TORN):
            torn.rest()
        until(lambda: _another(client, "front-end-0", before), "another front end")
        process.terminate()
        assert ended(process)[0] == 0


def test_the_engine_s_process_killed_every_front_end_is_gone_even_a_stopped_one() -> None:
    with two_front_ends() as (process, client), client_of(client, "front-end-0") as one:
        Streamed(one, process)
        os.kill(pids(client)["front-end-1"], signal.SIGSTOP)
        with contextlib.closing(Tree.of(process.pid)) as tree:
            assert len(tree.pidfds) >= 3
            began = time.monotonic()
            process.kill()
            until(lambda: not tree.alive(), "every process to be gone")
            assert time.monotonic() - began < 10
        _nobody_listens(client)


def test_while_the_engine_s_process_is_stopped_health_does_not_say_200() -> None:
    with two_front_ends() as (process, client):
        began = time.monotonic()
        with stopped(process.pid):
            until(lambda: look(client, "GET", "/health")[0] == 503, "health to tell")
            assert time.monotonic() - began < 15
            status, answer = look(client, "POST", "/v1/completions", {"prompt": "a"})
            assert (status, answer["error"]["code"]) == (503, "engine_silent")
        until(lambda: look(client, "GET", "/health")[0] == 200, "health to tell")
        process.terminate()
        assert ended(process)[0] == 0


def test_a_signal_ends_it_while_front_ends_start() -> None:
    with serving(
        sys.executable, "-m", "refengine.cli", "serve", "--port", "0", "--front-ends", "2"
    ) as (
        process,
        _,
    ):
        process.terminate()
        assert ended(process) == (0, "", "")


@pytest.mark.full
def test_front_ends_that_never_come_up_end_the_server_with_a_status() -> None:
    with serving(sys.executable, "-c", NO_FRONT_ENDS) as (process, _):
        status, out, err = ended(process)
    assert (status, out) == (70, "")
    assert err.splitlines()[-1] == "refengine serve: the HTTP server has ended by itself"
    assert sum("it stays away" in line for line in err.splitlines()) == 2


@pytest.mark.full
def test_signals_for_the_whole_group_leave_front_ends_to_their_parent() -> None:
    with two_front_ends() as (process, client), client_of(client, "front-end-0") as one:
        stream = Streamed(one, process)
        for pid in (*pids(client).values(), process.pid):
            for number in (signal.SIGTERM, signal.SIGINT)[: 1 if pid == process.pid else 2]:
                os.kill(pid, number)
        until(lambda: look(client, "GET", "/health/ready")[0] == 503, "the drain")
        process.send_signal(FINISH)
        assert stream.rest().text == WHOLE
        assert ended(process) == (0, "", "")


def _another(client: Client, name: str, before: dict[str, int]) -> bool:
    now = front_ends(client).get(name)  # one that has just come may not have heard of them
    return now is not None and now["state"] == "ready" and now["pid"] != before[name]


def _nobody_listens(client: Client) -> None:
    with pytest.raises(ConnectionRefusedError):
        Client(client.host, client.port).connect()
