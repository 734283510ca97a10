"""Idle connections to a server of 1,024 descriptors: it answers, and brings a dead core back."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from .process import SECONDS, Client, ask, ended, ready, serving, until

_IDLE = 1200
_SERVE = """
import resource, sys
from refengine import cli
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
sys.exit(cli.main(["serve", "--port", "0"]))
"""


@pytest.fixture(autouse=True)
def enough_descriptors() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * _IDLE:
        pytest.skip(f"this process may have {hard} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.mark.full
def test_idle_connections_leave_descriptors_for_requests_and_for_a_new_core() -> None:
    with serving(sys.executable, "-c", _SERVE) as (process, client), ExitStack() as idle:
        ready(client)
        for _ in range(_IDLE):
            idle.enter_context(socket.create_connection((client.host, client.port), 10))
        core = _served(client)
        assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) < 960
        os.kill(core, signal.SIGKILL)
        until(lambda: _core(client) not in (core, None), "another core")
        assert _served(client) != core
        process.send_signal(signal.SIGTERM)
        status, _, said = ended(process)
    assert status == 0
    assert len(said.splitlines()) < 10, said[:2000]


def _served(client: Client) -> int:
    """A completion is answered; the pid of the core behind it."""
    with _beside(client) as fresh:
        body = {"prompt": "the ring", "max_tokens": 4}
        status, answer = ask(fresh, "POST", "/v1/completions", body)
        assert (status, len(answer["choices"])) == (200, 1)
    core = _core(client)
    assert core
    return core


def _core(client: Client) -> int | None:
    with _beside(client) as fresh:
        status, health = ask(fresh, "GET", "/health")
    return int(health["replicas"][0]["pid"]) if status == 200 and health["ready"] else None


def _beside(client: Client) -> closing[Client]:
    """A connection made now: one that has been idle may have been hung up on."""
    return closing(Client(client.host, client.port, timeout=SECONDS))
