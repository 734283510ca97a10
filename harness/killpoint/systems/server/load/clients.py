"""Clients of a server: each asks again and again, and records how each of its requests ended.

Clients speak HTTP over plain connections (:mod:`.http_reply`), so that a torn body is seen as it
is.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from killpoint.history.log import Log
from killpoint.systems.server.load.completion import Completion
from killpoint.systems.server.load.http_reply import ClientRequest, HttpReply, request

COMPLETIONS = "/v1/completions"
_PAUSE = 0.2
"""Seconds between a request that failed and the client's next one."""
_CONNECTS_WITHIN = 5.0
_NO_ANSWER, _REFUSED = "no answer", "refused"
_LITTLE = 2048
"""Size of the kernel's receive buffer, in bytes, of a client that reads nothing."""


@dataclass
class Address:
    """Address of the server, and the name of its model."""

    host: str
    port: int
    model: str = ""
    connection: Callable[[str, int], socket.socket] | None = None
    """Function that connects where the server is on a node of its own; None: as any client does."""

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to it; raises OSError as usual."""
        if self.connection is None:
            return await asyncio.open_connection(self.host, self.port)
        made = await asyncio.to_thread(self.connection, self.host, self.port)
        made.setblocking(False)
        return await asyncio.open_connection(sock=made)


@dataclass
class Fetched:
    """A small answer, such as a health check's."""

    status: int
    body: str
    error: str = ""


async def fetch(
    address: Address, method: str, path: str, within: float, body: bytes = b""
) -> Fetched:
    """Send a small request; return its answer, or status 0 and an ``error`` where none came."""
    reply = HttpReply()
    try:
        async with asyncio.timeout(within):
            await _exchange(address, request(method, path, address.host, body), reply)
    except TimeoutError:
        return Fetched(0, "", f"{_NO_ANSWER} within {within:g} s")
    except ConnectionRefusedError:
        return Fetched(0, "", _REFUSED)
    except OSError as error:
        return Fetched(0, "", str(error))
    if not reply.ended:
        return Fetched(0, "", reply.torn)
    return Fetched(reply.status, bytes(reply.body).decode(errors="replace"))


def _end_of(found: Fetched) -> str:
    """Return how a small request ended, as :data:`.completion.End` has it."""
    if found.status:
        return "whole" if found.status == 200 else "error"
    if found.error.startswith(_NO_ANSWER):
        return "hang"
    return "refused" if found.error == _REFUSED else "no-answer"


async def _exchange(
    address: Address, data: bytes, reply: HttpReply, heard: Callable[[], None] | None = None
) -> None:
    reader, writer = await address.open()
    try:
        writer.write(data)
        await writer.drain()
        while not reply.over:
            try:
                more = await reader.read(1 << 16)
            except OSError as error:
                reply.end_of_file(type(error).__name__)
                break
            if more:
                reply.feed(more)
            else:
                reply.end_of_file()
            if heard is not None:
                heard()
    finally:
        writer.transport.abort()


Exchange = Callable[[Address, bytes, HttpReply, Callable[[], None] | None], Awaitable[None]]
"""Function that sends a client's request, and reads its answer."""


@dataclass
class Open:
    """Request that has not ended."""

    client: int
    stream: bool
    by: str = ""
    """Kind of client as in :mod:`.other_clients`; empty: one that asks again and again."""
    pieces: int = 0
    chars: int = 0
    last: int = 0
    """Time when its last piece came, ns; 0: none has."""
    since: int = field(default_factory=time.monotonic_ns)
    """Time when its last piece came, or it was asked, ns."""
    gap: int = 0
    """Longest time without a piece so far, ns."""

    def pause(self) -> None:
        """Take note that a piece has come, or the end."""
        now = time.monotonic_ns()
        self.gap, self.since = max(self.gap, now - self.since), now


@dataclass
class Load:
    """All clients of one play."""

    address: Address
    log: Log
    asked: list[ClientRequest]
    """Request of each client."""
    texts: dict[int, str] = field(default_factory=dict[int, str])
    """Undisturbed answer of each client."""
    open: dict[int, Open] = field(default_factory=dict[int, Open])
    heard: int = 0
    """Number of pieces of streams that have come."""
    chars: int = 0
    """Number of characters of streams that have come: pieces are larger where their client is
    behind."""
    undisturbed: float = 0.0
    """Seconds until every client had its answer, as all asked once."""
    sizes: dict[int, int] = field(default_factory=dict[int, int])
    """Bytes of each client's undisturbed answer."""
    marked: bool | None = None
    """True if undisturbed streams ended with ``[DONE]``, False if none did; None: not known."""
    together: int = 0
    """Most streams that were in the middle of their answers at once, undisturbed: 1 where a server
    answers one request after another."""
    stopping: bool = False
    last: int = field(default_factory=time.monotonic_ns)
    """Time when the last piece of any stream came, or the load began, ns."""
    _count: int = 0
    _tasks: list[asyncio.Task[object]] = field(default_factory=list["asyncio.Task[object]"])

    async def control(self, clients: int, within: float) -> bool:
        """Have every client ask once, undisturbed; return whether all were answered whole."""
        began = time.monotonic()
        ends = await asyncio.gather(
            *(self.ask(client, within, phase="control") for client in range(clients))
        )
        self.undisturbed = time.monotonic() - began
        return all(end == "whole" for end in ends)

    def begin(self, clients: int, deadline: float) -> None:
        """Have every client ask from now on, again and again."""
        self.stopping = False
        self.last = time.monotonic_ns()
        for client in range(clients):
            self.run(self._again(client, deadline))

    def leave(self, clients: int, *, never_read: bool) -> None:
        """Add clients that ask and do not wait for the answer as clients should."""
        for client in range(clients):
            self.run(self._stay(client) if never_read else self._hang_up(client))

    async def calm(self) -> None:
        """Have clients stop asking, and wait until all requests have ended."""
        self.stopping = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def close(self) -> None:
        """Cancel every client; a request that it waited for has not ended."""
        for task in self._tasks:
            task.cancel()
        await self.calm()

    def in_prefill(self) -> bool:
        """Return whether every client has asked, and none has a token."""
        closed = [each for each in self.open.values() if not each.by]
        return len(closed) == len(self.asked) and not any(each.pieces for each in closed)

    def in_decode(self) -> bool:
        """Return whether every stream is in the middle of its answer.

        One stream is enough where the server answers one request after another.
        """
        streams = [each for each in self.open.values() if each.stream and not each.by]
        amid = self._amid()
        if self.together == 1:
            return amid == 1
        return len(streams) >= len(self.asked) // 2 and amid == len(streams)

    def _amid(self) -> int:
        return sum(each.stream and not each.by and each.pieces > 1 for each in self.open.values())

    def silent_for(self) -> float:
        """Return the seconds since any client got a piece of its answer."""
        return (time.monotonic_ns() - self.last) / 1e9

    def waits(self, seconds: float) -> bool:
        """Return whether a client has waited that long for the next piece, or for its answer."""
        now = time.monotonic_ns()
        return any(now - each.since >= seconds * 1e9 for each in self.open.values())

    def run(self, work: Awaitable[object]) -> None:
        """Run a client's work beside all others; :meth:`calm` waits for its end."""
        self._tasks.append(asyncio.ensure_future(work))

    async def _again(self, client: int, deadline: float) -> None:
        while not self.stopping:
            if await self.ask(client, deadline) not in ("whole", "differs", "truncated"):
                await asyncio.sleep(_PAUSE)

    async def ask(
        self,
        client: int,
        deadline: float,
        phase: str = "load",
        by: str = "",
        exchange: Exchange = _exchange,
    ) -> str:
        """Send a client's request; return how it ended. ``exchange``: how it sends and reads."""
        asked = self.asked[client]
        self._count += 1
        number = self._count
        reply, completion = HttpReply(), Completion(asked.tokens)
        mine = self.open[number] = Open(client, asked.stream, by)
        facts: dict[str, object] = {"client": client, "stream": asked.stream, "phase": phase}
        self.log.write("ask", n=number, **facts, **({"by": by} if by else {}))

        def heard() -> None:
            completion.take(reply)
            more = completion.pieces - mine.pieces
            if more and not mine.pieces:
                self.log.write("first", n=number)
            if more:
                mine.pause()
                mine.last = self.last = mine.since
            if mine.stream:
                self.chars += len(completion.text) - mine.chars
            mine.pieces, mine.chars = completion.pieces, len(completion.text)
            self.heard += more
            if phase == "control":
                self.together = max(self.together, self._amid())

        data = request("POST", COMPLETIONS, self.address.host, asked.body(self.address.model))
        end, why = "hang", f"no end within {deadline:g} s"
        try:
            async with asyncio.timeout(deadline):
                await exchange(self.address, data, reply, heard)
            marked = phase != "control" and self.marked is not False
            end, why = completion.end(reply, self.texts.get(client), marked=marked)
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            end, why = "open", "the play was over"
            raise
        except OSError as error:
            end, why = "refused", type(error).__name__
        finally:
            del self.open[number]
            mine.pause()
            facts = {"status": reply.status, "pieces": completion.pieces, "gap": mine.gap}
            facts |= {"finish": completion.finish, "bytes": len(completion.text)}
            facts |= {"last": mine.last}
            self.log.write("answer", n=number, end=end, why=why, **facts)
        if phase == "control" and end == "whole":
            self.texts[client] = completion.text
            self.sizes[client] = len(reply.body)
            if reply.is_stream:
                self.marked = bool(self.marked) or completion.done
        return end

    async def call(self, path: str, body: bytes, deadline: float) -> None:
        """Make a utility call, which is recorded as a request is."""
        self._count += 1
        number = self._count
        self.log.write("ask", n=number, client=-1, stream=False, phase="utility")
        end, found = "open", Fetched(0, "", "the play was over")
        try:
            found = await fetch(self.address, "POST", path, deadline, body)
            end = _end_of(found)
        finally:
            why = found.error or ("" if end == "whole" else f"{found.status} {found.body[:200]}")
            facts = {"status": found.status, "pieces": 0, "bytes": len(found.body), "last": 0}
            self.log.write("answer", n=number, end=end, why=why.strip(), **facts)

    async def _hang_up(self, client: int) -> None:
        """Ask, and hang up: half of the clients in the middle of the answer, half before it."""
        asked = self.asked[client % len(self.asked)]
        midway = client % 2 == 0
        long = ClientRequest(asked.prompt, asked.tokens, stream=midway)
        data = request("POST", COMPLETIONS, self.address.host, long.body(self.address.model))
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECTS_WITHIN):
                reader, writer = await self.address.open()
            writer.write(data)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CONNECTS_WITHIN):
                    await (reader.read(256) if midway else asyncio.sleep(0.3))
            writer.transport.abort()
        self.log.write("hung-up", client=client, midway=midway)

    async def _stay(self, client: int) -> None:
        """Ask for a stream, and read nothing of it."""
        asked = self.asked[client % len(self.asked)]
        body = ClientRequest(asked.prompt, asked.tokens, stream=True).body(self.address.model)
        data = request("POST", COMPLETIONS, self.address.host, body)
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as plain:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _LITTLE)
            plain.setblocking(False)
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECTS_WITHIN):
                    await loop.sock_connect(plain, (self.address.host, self.address.port))
                    await loop.sock_sendall(plain, data)
            self.log.write("reads-nothing", client=client)
            while not self.stopping:
                await asyncio.sleep(_PAUSE)
