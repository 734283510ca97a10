"""A `refengine serve` in a process of its own, and a client of it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[3]
SECONDS = 120.0  # a machine may be busy; nothing here waits for it to pass
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "impl"), str(ROOT)])}

Process = subprocess.Popen[str]
Client = http.client.HTTPConnection


@contextmanager
def serving(*command: str, **environment: str) -> Generator[tuple[Process, Client]]:
    """From when it says where it listens; it is killed if it is left alive."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | environment,
    )
    try:
        first = line_of(process)
        assert first.startswith("listening at http://"), process.communicate()
        with closing(client_of(first.removeprefix("listening at ").strip())) as client:
            yield process, client
    finally:
        process.kill()
        process.communicate()


def line_of(process: Process) -> str:
    """The next line of its standard output; it is killed if none comes in time."""
    assert process.stdout
    killed = Timer(SECONDS, process.kill)
    killed.start()
    try:
        line = process.stdout.readline()
    finally:
        killed.cancel()
    assert line, f"no line in {SECONDS:g} s, or before its end: {process.communicate()[1]}"
    return line


def client_of(address: str) -> Client:
    where = urlsplit(address)
    assert where.hostname
    return Client(where.hostname, where.port, timeout=SECONDS)


def until(met: Callable[[], object], what: str) -> None:
    """Look again until it is so; AssertionError when it takes too long."""
    end = time.monotonic() + SECONDS
    while not met():
        assert time.monotonic() < end, f"waited {SECONDS:g} s for {what}"
        Event().wait(0.02)


def ready(client: Client) -> None:
    """Until it would take a request."""
    until(lambda: ask(client, "GET", "/health/ready")[0] == 200, "the engine to be ready")


def ask(client: Client, method: str, path: str, body: object = None) -> tuple[int, Any]:
    client.request(method, path, json.dumps(body))
    return read(client)


def read(client: Client) -> tuple[int, Any]:
    response = client.getresponse()
    return response.status, json.loads(response.read())


def ended(process: Process) -> tuple[int, str, str]:
    """Status, and what it has said that was not read yet."""
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err
