"""Clients beside the closed loop: how an open loop arrives, how little a slow reader takes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.systems.server.load.clients import Address, Load
from killpoint.systems.server.load.http_reply import ClientRequest
from killpoint.systems.server.load.other_clients import abort_whole, keep_coming, read_slowly

PIECES = 40
EVENT = b'data: {"choices": [{"text": "word ", "finish_reason": null}]}\n\n'
LAST = b'data: {"choices": [{"text": "", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


class Small:
    """A server that streams the same to all, as fast as it is read, once it may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.last = LAST
        self.open = self.most = self.hung_up = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await reader.readuntil(b"\r\n\r\n")
            gone = asyncio.ensure_future(_until_gone(reader))
            may = asyncio.ensure_future(self.may.wait())
            await asyncio.wait([gone, may], return_when=asyncio.FIRST_COMPLETED)
            self.hung_up += gone.done()
            may.cancel()
            gone.cancel()
            writer.write(HEAD + EVENT * PIECES + self.last)
            await writer.drain()
        except OSError:
            pass
        finally:
            self.open -= 1
            writer.close()


async def _until_gone(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(1 << 16):
            pass


@contextlib.asynccontextmanager
async def _load(folder: Path, clients: int) -> AsyncGenerator[tuple[Small, Load]]:
    small = Small()
    server = await asyncio.start_server(small.answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    asked = [ClientRequest("x", PIECES, stream=True) for _ in range(clients)]
    log = Log(folder / "driver.jsonl", "driver")
    load = Load(Address("127.0.0.1", port), log, asked, dict.fromkeys(range(clients), _text()))
    try:
        yield small, load
    finally:
        small.may.set()
        await load.calm()
        log.close()
        server.close()
        await server.wait_closed()


def _text() -> str:
    return "word " * PIECES


async def _reach(what: str, seconds: float, holds: object) -> None:
    end = time.monotonic() + seconds
    assert callable(holds)
    while not holds():
        assert time.monotonic() < end, f"the test waited {seconds} s for {what}"
        await asyncio.sleep(0.01)


def test_an_open_loop_goes_on_though_nobody_is_answered_and_keeps_its_bound(
    tmp_path: Path,
) -> None:
    async def play() -> int:
        async with _load(tmp_path, 4) as (small, load):
            load.run(keep_coming(load, 200.0, 10, 20.0, random.Random(1)))
            await _reach("as many requests as there may be", 10, lambda: small.open == 10)
            await asyncio.sleep(0.3)
        return small.most

    assert asyncio.run(play()) == 10
    history = History.read(tmp_path)
    assert len(list(history.of("left-out"))) > 5
    assert {event.text("by") for event in history.of("ask")} == {"open-loop"}
    assert {event.text("end") for event in history.of("answer")} == {"whole"}


def test_arrivals_of_an_open_loop_come_at_the_rate_and_by_the_seed(tmp_path: Path) -> None:
    async def play(folder: Path) -> list[int]:
        folder.mkdir()
        async with _load(folder, 4) as (small, load):
            small.may.set()
            load.run(keep_coming(load, 40.0, 100, 20.0, random.Random(7)))
            await asyncio.sleep(2.0)
        return [event.number("client") for event in History.read(folder).of("ask")]

    first, second = (asyncio.run(play(tmp_path / name)) for name in ("a", "b"))
    assert 45 < len(first) < 125
    both = min(len(first), len(second))
    assert first[:both] == second[:both]


def test_a_slow_reader_takes_its_time_and_has_its_answer_whole(tmp_path: Path) -> None:
    async def play() -> None:
        async with _load(tmp_path, 4) as (small, load):
            small.may.set()
            load.sizes[0], load.undisturbed = len(EVENT * PIECES + LAST), 0.5
            load.run(read_slowly(load, 0, 30.0, 4.0, 20))
            await _reach("an answer", 20, lambda: not load.open and load.heard >= PIECES)
            load.stopping = True

    asyncio.run(play())
    history = History.read(tmp_path)
    asked = next(iter(history.of("ask")))
    answered = next(iter(history.of("answer")))
    assert answered.text("end") == "whole"
    assert (answered.t - asked.t) / 1e9 > 1.8
    assert asked.text("by") == "slow-reader"


def test_a_whole_request_is_aborted_before_its_answer_and_says_if_one_came(tmp_path: Path) -> None:
    async def play() -> int:
        async with _load(tmp_path, 4) as (small, load):
            await abort_whole(load, 0, 0.0)
            await _reach("the server to see it", 10, lambda: small.hung_up == 1)
            small.may.set()
            await abort_whole(load, 1, 5.0)
            return small.hung_up

    assert asyncio.run(play()) == 1
    ends = [event.data["answered"] for event in History.read(tmp_path).of("hung-up")]
    assert ends == [False, True]


def test_phases_are_those_of_clients_that_ask_again_and_again(tmp_path: Path) -> None:
    async def play() -> tuple[bool, bool]:
        async with _load(tmp_path, 2) as (small, load):
            load.begin(2, 20.0)
            await _reach("both to have asked", 10, lambda: small.open == 2)
            alone = load.in_prefill()
            load.run(load.ask(0, 20.0, by="open-loop"))
            await _reach("a third to have asked", 10, lambda: small.open == 3)
            beside = load.in_prefill()
            load.stopping = True
            return alone, beside

    assert asyncio.run(play()) == (True, True)


def test_a_server_that_never_marks_the_end_of_a_stream_is_judged_without_the_mark(
    tmp_path: Path,
) -> None:
    async def play(folder: Path, controls: bytes, under_load: bytes) -> tuple[bool, str]:
        folder.mkdir()
        async with _load(folder, 2) as (small, load):
            small.may.set()
            load.texts.clear()
            small.last = controls
            whole = await load.control(2, 20.0)
            small.last = under_load
            return whole, await load.ask(0, 20.0)

    unmarked = LAST.replace(b"data: [DONE]\n\n", b"")
    assert asyncio.run(play(tmp_path / "never", unmarked, unmarked)) == (True, "whole")
    assert asyncio.run(play(tmp_path / "ever", LAST, LAST)) == (True, "whole")
    assert asyncio.run(play(tmp_path / "lost", LAST, unmarked)) == (True, "truncated")
