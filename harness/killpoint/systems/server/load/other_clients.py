"""Clients that act as users do, beside those that ask again and again.

An *open loop* begins requests at a rate, whatever the answers do; a *slow reader* takes its answer
a piece at a time; others abort a request whose answer does not stream. Requests of the first two
are recorded like all others, with the kind of client (``by``); an abort is recorded as ``hung-up``,
with whether an answer had begun to come.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import Callable

from killpoint.systems.server.load.clients import COMPLETIONS, Address, Load
from killpoint.systems.server.load.http_reply import ClientRequest, HttpReply, request

OPEN_LOOP, SLOW = "open-loop", "slow-reader"
_CONNECTS_WITHIN = 5.0
_KEPT = 2048
"""Size of the kernel's receive buffer, in bytes, of a slow reader: the rest waits at the server."""
_USUAL = 16_384
"""Bytes of an answer whose size is not known from the control."""
_LEAST = 0.3
"""Least seconds after which a client that aborts hangs up."""


async def keep_coming(
    load: Load, rate: float, most: int, deadline: float, chance: random.Random
) -> None:
    """Begin ``rate`` requests a second, at most ``most`` at a time, until the load stops.

    Arrivals are Poisson's, and keep to their times however late this process is; an arrival beyond
    the bound is left out, and recorded as ``left-out``.
    """
    began, due = time.monotonic(), 0.0
    while True:
        due += chance.expovariate(rate)
        await asyncio.sleep(max(0.0, began + due - time.monotonic()))
        if load.stopping:
            return
        client = chance.randrange(len(load.asked))
        if sum(each.by == OPEN_LOOP for each in load.open.values()) >= most:
            load.log.write("left-out", client=client)
            continue
        load.run(load.ask(client, deadline, by=OPEN_LOOP))


async def read_slowly(load: Load, client: int, deadline: float, times: float, pieces: int) -> None:
    """Ask for streams, one after another, and take each in so many pieces.

    Each takes ``times`` times as long as every client had to wait when all asked once.
    """
    streams = [n for n, asked in enumerate(load.asked) if asked.stream]
    mine = streams[client % len(streams)]
    piece = max(1, load.sizes.get(mine, _USUAL) // pieces)
    each = times * (load.undisturbed or 1.0) / pieces

    async def slowly(
        address: Address, data: bytes, reply: HttpReply, heard: Callable[[], None] | None
    ) -> None:
        reader, writer = await _narrow(address, piece)
        try:
            writer.write(data)
            await writer.drain()
            while not reply.over:
                _take(reply, await _read(reader, piece))
                if heard is not None:
                    heard()
                await asyncio.sleep(each)
        finally:
            writer.transport.abort()

    load.log.write("reads-slowly", client=client, piece=piece, each=round(each, 3))
    while not load.stopping:
        await load.ask(mine, deadline, by=SLOW, exchange=slowly)
        await asyncio.sleep(each)


async def abort_whole(load: Load, client: int, after: float) -> None:
    """Ask for an answer that does not stream, and hang up before it comes."""
    asked = load.asked[client % len(load.asked)]
    whole = ClientRequest(asked.prompt, asked.tokens, stream=False)
    data = request("POST", COMPLETIONS, load.address.host, whole.body(load.address.model))
    came = b""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CONNECTS_WITHIN):
            reader, writer = await load.address.open()
        writer.write(data)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(max(after, _LEAST)):
                came = await reader.read(1)
        writer.transport.abort()
    load.log.write("hung-up", client=client, midway=False, answered=bool(came))


async def _narrow(
    address: Address, piece: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection with a small receive buffer, so that data waits at the server."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    plain = socket.socket(family, socket.SOCK_STREAM)
    try:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KEPT)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, (address.host, address.port))
        return await asyncio.open_connection(sock=plain, limit=piece)
    except BaseException:
        plain.close()
        raise


async def _read(reader: asyncio.StreamReader, most: int) -> bytes | str:
    """Return what has come; empty at the end of the connection, or the name of an error."""
    try:
        return await reader.read(most)
    except OSError as error:
        return type(error).__name__


def _take(reply: HttpReply, more: bytes | str) -> None:
    if isinstance(more, str) or not more:
        reply.end_of_file(more if isinstance(more, str) else "")
    else:
        reply.feed(more)
