"""An OpenAI-compatible server of two replicas, honest or with one lie: what E3 of servers catches.

``python plain_replicas.py PORT [LIE]``: a front, which answers, and two cores. A core gives a tick
every few milliseconds, and each request that it has gets a token with it. When a core dies its
requests fail, the other goes on, and a new one takes its place.

Lies, all told once a core has died: ``fails-all``, ``fails-late``, ``fails-later-ones``,
``starves``, ``stays-half``, ``ends``.
"""

import asyncio
import json
import os
import pathlib
import signal
import sys

PORT, LIE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
TICK, AGAIN, DRAIN, FAILS_AFTER, KNOWN_AFTER = 0.02, 0.5, 3.0, 9.0, 5.5
REPLICAS = 2
DEATHS = []
"""When cores died, by the loop's clock."""


class Ended(Exception):
    """No more tokens come, and why."""


class Replica:
    """A core, and the requests that it has."""

    def __init__(self, number):
        self.number, self.open, self.count = number, 0, 0
        self.ticked, self.alive, self.why = asyncio.Condition(), False, ""

    def start(self):
        ticks, tick = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            be_core(tick)
        os.close(tick)
        self.alive, self.why = True, ""
        self.life = asyncio.ensure_future(self.live(ticks))

    async def live(self, ticks):
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ticks))
        while data := await reader.read(1):
            self.count += len(data)
            if not slowed(self.count):
                await self.tell("")
        os.waitpid(self.pid, 0)
        self.alive = False
        DEATHS.append(loop.time())
        if LIE == "fails-late":
            await asyncio.sleep(FAILS_AFTER)
        for each in ALL if LIE in ("fails-all", "ends") else [self]:
            await each.tell("a core is dead")
        if LIE == "ends":
            TOLD.set()
        await asyncio.sleep(AGAIN)
        self.start()

    async def tell(self, why):
        async with self.ticked:
            self.why = why
            self.ticked.notify_all()

    async def token(self):
        async with self.ticked:
            await self.ticked.wait()
        if self.why:
            raise Ended(self.why)


def slowed(count):
    """Whether a lie keeps this tick back: after a death, or once there are two again."""
    if LIE == "starves" and DEATHS:
        return count % 5 != 0
    return LIE == "stays-half" and bool(DEATHS) and count % 2 == 0


def be_core(tick):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pathlib.Path("/proc/self/comm").write_text("core")
    os.closerange(3, tick)
    os.closerange(tick + 1, 64)
    while True:
        signal.sigtimedwait([], TICK)
        try:
            os.write(tick, b".")
        except OSError:
            os._exit(0)


async def serve(reader, writer):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("GET /metrics"):
            lines = [f'open_requests{{replica="{each.number}"}} {each.open}\n' for each in ALL]
            whole(writer, 200, "".join(lines))
        elif head.startswith("GET"):
            whole(writer, 503 if TOLD.is_set() else 200, "")
        else:
            length = next(x for x in head.lower().split("\r\n") if x.startswith("content-length"))
            await answer(writer, json.loads(await reader.readexactly(int(length.split(":")[1]))))
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def answer(writer, asked):
    there = [each for each in ALL if each.alive]
    late = DEATHS and asyncio.get_running_loop().time() - DEATHS[0] > KNOWN_AFTER
    if not there or TOLD.is_set() or (late and LIE == "fails-later-ones"):
        failed = 500 if there and not TOLD.is_set() else 503
        return whole(writer, failed, json.dumps({"error": {"message": "no replica takes it"}}))
    mine = min(there, key=lambda each: each.open)
    mine.open += 1
    text, begun = "", False
    try:
        for n in range(int(asked["max_tokens"])):
            await mine.token()
            piece = f"{(len(asked['prompt']) * 7 + n * n) % 97} "
            text += piece
            if asked.get("stream") and not begun:
                begun = True
                start(writer, 200, "text/event-stream", "Transfer-Encoding: chunked")
            if begun:
                event(writer, {"choices": [{"text": piece, "finish_reason": None}]})
                await writer.drain()
    except Ended as why:
        error = {"error": {"message": str(why)}}
        if not begun:
            return whole(writer, 500, json.dumps(error))
        event(writer, error)
    else:
        choice = {"text": "" if begun else text, "finish_reason": "length"}
        if not begun:
            return whole(writer, 200, json.dumps({"choices": [choice]}))
        event(writer, {"choices": [choice]})
    finally:
        mine.open -= 1
    chunk(writer, b"data: [DONE]\n\n")
    return writer.write(b"0\r\n\r\n")


def start(writer, status, kind, *more):
    lines = [f"HTTP/1.1 {status} {status}", f"Content-Type: {kind}", "Connection: close", *more]
    writer.write("\r\n".join([*lines, "", ""]).encode())


def whole(writer, status, body):
    start(writer, status, "application/json", f"Content-Length: {len(body)}")
    writer.write(body.encode())


def event(writer, content):
    chunk(writer, b"data: " + json.dumps(content).encode() + b"\n\n")


def chunk(writer, data):
    writer.write(b"%x\r\n" % len(data) + data + b"\r\n")


async def main():
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, TOLD.set)
    for each in ALL:
        each.start()
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    await TOLD.wait()
    end = loop.time() + DRAIN
    while any(each.open for each in ALL) and loop.time() < end:
        await asyncio.sleep(0.05)
    server.close()
    for each in ALL:
        await each.tell("the server ends")
    await asyncio.sleep(0.2)
    os._exit(1 if DEATHS and LIE == "ends" else 0)


TOLD = asyncio.Event()
ALL = [Replica(number) for number in range(REPLICAS)]
asyncio.run(main())
