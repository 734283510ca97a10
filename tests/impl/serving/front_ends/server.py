"""A server with two front ends, whose engine says what it is told to; and clients of each."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..process import SECONDS, Client, Process, ask, line_of, ready, serving, until

_SERVE = """
import signal, sys, threading
from refengine import cli
from refengine.engine import Delta
from refengine.serving import command
from tests.impl.serving.fake_engine import FakeEngine

FIRST, REST = tuple(b"first"), tuple(b" and last")

class Engine(FakeEngine):
    def submit(self, *args, **more):
        stream = super().submit(*args, **more)
        stream.put(Delta(FIRST))
        print("submitted", flush=True)
        return stream

    def _cancel(self, name):
        super()._cancel(name)
        print("cancelled", flush=True)

    def finish(self, *_):
        for stream in self.streams.values():
            stream.put(Delta(REST, "length"))

    def flood(self, *_):
        def pour():
            for stream in list(self.streams.values()):
                while not stream.ended:
                    stream.put(Delta((79,) * 1000))
        threading.Thread(target=pour, daemon=True).start()

    def __enter__(self):
        signal.signal(signal.SIGUSR1, self.finish)
        signal.signal(signal.SIGUSR2, self.flood)
        return self

command.Engine = Engine
sys.exit(cli.main(["serve", "--port", "0", "--front-ends", "2", *sys.argv[1:]]))
"""
NO_FRONT_ENDS = (
    """
import itertools
from refengine.serving.front_ends import handle
handle.front_end_main = itertools.chain  # in the child: returns at once
"""
    + _SERVE
)
FINISH, FLOOD = signal.SIGUSR1, signal.SIGUSR2
"""What the engine is told by: end every answer; give more of each, without end."""
WHOLE = "first and last"


@contextlib.contextmanager
def two_front_ends(*flags: str) -> Generator[tuple[Process, Client]]:
    """From when both answer, and the engine is ready."""
    with serving(sys.executable, "-c", _SERVE, "--step-timeout", "60", *flags) as (process, client):
        ready(client)
        until(lambda: set(states(client).values()) == {"ready"}, "both front ends")
        yield process, client


def look(client: Client, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Ask over a connection of its own: one that was idle may have been hung up on."""
    with contextlib.closing(Client(client.host, client.port, timeout=SECONDS)) as fresh:
        return ask(fresh, method, path, body)


def front_ends(client: Client) -> dict[str, dict[str, Any]]:
    """As the server describes them."""
    _, health = look(client, "GET", "/health")
    return {each["name"]: each for each in health["front_ends"]}


def states(client: Client) -> dict[str, str]:
    return {name: each["state"] for name, each in front_ends(client).items()}


def pids(client: Client) -> dict[str, int]:
    return {name: each["pid"] for name, each in front_ends(client).items()}


def metrics(client: Client) -> str:
    with contextlib.closing(Client(client.host, client.port, timeout=SECONDS)) as fresh:
        fresh.request("GET", "/metrics")
        return fresh.getresponse().read().decode()


@contextlib.contextmanager
def client_of(client: Client, name: str) -> Generator[Client]:
    """A connection to that front end, made while the others are stopped and accept nothing."""
    others = [pid for other, pid in pids(client).items() if other != name]
    with contextlib.closing(Client(client.host, client.port, timeout=SECONDS)) as made:
        with stopped(*others):
            _, health = ask(made, "GET", "/health")
            assert health["front_end"] == name
        yield made


@contextlib.contextmanager
def streams_of_each(client: Client, process: Process) -> Generator[tuple[Streamed, Streamed]]:
    """An answer in its midst at each front end."""
    with client_of(client, "front-end-0") as one:
        first = Streamed(one, process)
        with client_of(client, "front-end-1") as other:
            yield first, Streamed(other, process)


@contextlib.contextmanager
def stopped(*processes: int) -> Generator[None]:
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in processes:
            until(lambda pid=pid: _state(pid) == "T", "a process to be stopped")
        yield
    finally:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


class Streamed:
    """An answer as it comes; made once its first text has come."""

    def __init__(self, client: Client, process: Process | None = None, **asked: Any) -> None:
        asked = {"prompt": "a", "max_tokens": 1000, "stream": True} | asked
        client.request("POST", "/v1/completions", json.dumps(asked))
        if process is not None:
            said(process, "submitted")
        self._answer = client.getresponse()
        assert self._answer.status == 200
        self.text = ""
        self.tokens: list[int] = []
        self.finish: str | None = None
        self.error: dict[str, Any] | None = None
        self.done = False
        self._events = self._read()
        next(self._events)

    def rest(self) -> Streamed:
        """To its end; raises what a client meets when it is cut off."""
        for _ in self._events:
            pass
        return self

    def _read(self) -> Iterator[None]:
        unread = b""
        while came := self._answer.read1():  # readline takes a torn body for a whole one
            *lines, unread = (unread + came).split(b"\n")
            yield from self._take(lines)

    def _take(self, lines: list[bytes]) -> Iterator[None]:
        for line in lines:
            content = line.decode().strip().removeprefix("data: ")
            if content == "[DONE]":
                self.done = True
            elif content:
                event = json.loads(content)
                self.error = event.get("error")
                for choice in event.get("choices", ()):
                    self.text += choice["text"]
                    self.tokens += choice["token_ids"]
                    self.finish = choice["finish_reason"]
                yield


def said(process: Process, expected: str) -> None:
    """The next line of its standard output."""
    assert line_of(process) == f"{expected}\n"


@dataclass
class Tree:
    """The processes below one, and that one, whatever becomes of it."""

    pidfds: dict[int, int]

    @classmethod
    def of(cls, pid: int) -> Tree:
        found, left = dict[int, int](), [pid]
        while left:
            one = left.pop()
            found[one] = os.pidfd_open(one)
            for task in Path(f"/proc/{one}/task").iterdir():
                left += map(int, task.joinpath("children").read_text().split())
        return cls(found)

    def alive(self) -> list[int]:
        """Those that have not ended."""
        poller = select.poll()
        for fd in self.pidfds.values():
            poller.register(fd, select.POLLIN)
        over = {fd for fd, _ in poller.poll(0)}
        return [pid for pid, fd in self.pidfds.items() if fd not in over]

    def close(self) -> None:
        for fd in self.pidfds.values():
            os.close(fd)
