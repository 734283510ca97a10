"""Desertion: prompts are as long as the server's speed asks for, and their client is soon gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgspec
import pytest

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.systems.server.load.answer import Answer, Said
from killpoint.systems.server.load.desertion import Desertion
from killpoint.systems.server.load.http_reply import HttpReply, request
from killpoint.systems.server.steps import Deserts

_CROWD, _SECONDS = 100, 30.0


def _several(count: int, longest: int) -> int:
    """The status of a server that refuses a prompt that is too long."""
    return 200 if longest <= 8192 and count else 400


@dataclass
class _Server:
    """A server that computes so many characters a second, by a clock of its own."""

    speed: float
    status: Callable[[int, int], int] = _several
    overhead: float = 0.02
    pauses: dict[int, float] = field(default_factory=dict[int, float])
    """Seconds that the machine stands still in a request, by its number."""
    now: float = 0.0
    asked: list[list[str]] = field(default_factory=list["list[str]"])

    def clock(self) -> float:
        return self.now

    def encoded(self, fields: dict[str, object]) -> bytes:
        return request("POST", "/v1/completions", "here", msgspec.json.encode(fields))

    async def ask(self, data: bytes, within: float) -> tuple[HttpReply, Answer, str]:
        fields = _fields(data)
        prompts = cast("list[str]", fields["prompt"])
        prompts = prompts if isinstance(prompts, list) else [prompts]
        reply, answer = HttpReply(), Answer()
        reply.status = self.status(len(prompts), max(map(len, prompts)))
        if reply.status == 200:
            answer.choices = {n: Said("x", "length") for n in range(len(prompts))}
            self.now += sum(map(len, prompts)) / self.speed
        self.now += self.overhead + self.pauses.get(len(self.asked), 0.0)
        self.asked.append(prompts)
        return reply, answer, "" if self.now < within else "hang"


def _fields(data: bytes) -> dict[str, object]:
    return cast("dict[str, object]", msgspec.json.decode(data.split(b"\r\n\r\n", 1)[1]))


def _fitted(server: _Server, folder: Path) -> tuple[Desertion, bool]:
    with closing(Log(folder / "driver.jsonl", "driver")) as log:
        made = Desertion(server, log, _CROWD, server.clock)
        return made, asyncio.run(made.fit(_SECONDS, 1000.0))


@pytest.mark.parametrize("speed", [500.0, 2_000.0, 20_000.0])
def test_what_is_left_takes_long_on_a_machine_of_any_speed(speed: float, tmp_path: Path) -> None:
    server = _Server(speed)
    made, able = _fitted(server, tmp_path)
    assert able
    assert _CROWD * made.characters / speed >= _SECONDS
    assert server.now < 0.4 * _SECONDS
    assert made.refuses


def test_no_prompt_is_asked_twice_and_none_begins_as_another_one(tmp_path: Path) -> None:
    server = _Server(2_000.0)
    made, _ = _fitted(server, tmp_path)
    left = cast("list[str]", _fields(made.request("choice"))["prompt"])
    left += cast("list[str]", _fields(made.request("last-prompt"))["prompt"])
    asked = [prompt for prompts in (*server.asked, left) for prompt in prompts]
    long = [prompt for prompt in asked if "ring" in prompt]
    assert len({prompt.split()[0] for prompt in long}) == len(long) > 2 * _CROWD


def test_a_pause_of_the_machine_feigns_no_slow_server(tmp_path: Path) -> None:
    speed = 20_000.0
    made, _ = _fitted(_Server(speed, pauses={2: 5.0}), tmp_path)
    assert _CROWD * made.characters / speed >= _SECONDS


def test_what_each_request_costs_by_itself_is_not_taken_for_computing(tmp_path: Path) -> None:
    speed = 20_000.0
    made, _ = _fitted(_Server(speed, overhead=1.0), tmp_path)
    assert _CROWD * made.characters / speed >= _SECONDS


def test_what_is_refused_is_not_left(tmp_path: Path) -> None:
    made, able = _fitted(
        _Server(20_000.0, lambda count, longest: 200 if longest <= 1000 else 400), tmp_path
    )
    assert able
    assert made.characters == 512


def test_a_server_that_takes_one_prompt_is_not_deserted(tmp_path: Path) -> None:
    _, able = _fitted(_Server(1000.0, lambda count, _: 200 if count == 1 else 400), tmp_path)
    assert not able


def test_one_that_grants_what_is_too_long_is_not_asked_for_it(tmp_path: Path) -> None:
    server = _Server(20_000.0, lambda *_: 200)
    made, able = _fitted(server, tmp_path)
    assert able
    assert not made.refuses
    log = Log(tmp_path / "second.jsonl", "driver")
    with closing(log):
        made = Desertion(server, log, _CROWD, server.clock)
        asyncio.run(made.leave("last-prompt", _nowhere, 20.0))
    assert not list(History.read(tmp_path).of("deserted"))


async def _nowhere() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    raise ConnectionRefusedError


def _left(how: Deserts, answer: bytes, folder: Path) -> tuple[int, list[dict[str, object]]]:
    """Have a client leave a server that answers this; return the bytes it sent, and the log."""
    got = 0
    is_gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().split(b"content-length: ")[1].split()[0]
        got = len(await reader.readexactly(int(length)))
        writer.write(answer)
        with suppress(OSError):
            await reader.read()  # until the client is gone
        writer.transport.abort()
        is_gone.set()

    async def play() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        with closing(Log(folder / "driver.jsonl", "driver")) as log:
            made = Desertion(_Server(1.0), log, _CROWD)
            made.characters, made.refuses = 256, True
            await made.leave(how, lambda: asyncio.open_connection(host, port), 20.0)
        async with asyncio.timeout(20.0):
            await is_gone.wait()
        server.close()
        await server.wait_closed()

    asyncio.run(play())
    return got, [event.data for event in History.read(folder).of("deserted")]


def test_a_client_leaves_at_the_end_of_its_first_completion(tmp_path: Path) -> None:
    event = b'data: {"choices": [{"index": 0, "text": "a", "finish_reason": "length"}]}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"
    got, (told,) = _left("choice", head + event, tmp_path)
    assert got > _CROWD * 256
    assert (told["how"], told["end"], told["status"]) == ("choice", "left", 200)


def test_a_client_is_refused_for_its_last_prompt(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}"
    _, (told,) = _left("last-prompt", answer, tmp_path)
    assert (told["how"], told["end"], told["status"]) == ("last-prompt", "ended", 400)
