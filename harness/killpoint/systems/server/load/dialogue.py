"""A dialogue: clients of one server that ask, leave, dawdle and err at once, each in its own way.

Its log records ``spoken`` of each answer of the control (prompt, length, text, finish, tokens),
``lacks`` of each feature that the server refuses undisturbed, ``exchange`` when a client asks, with
its stop strings, and ``exchange-end`` with what it got; a feature that is lacking is not asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

import msgspec

from killpoint.history.log import Log
from killpoint.systems.server.load.answer import Answer
from killpoint.systems.server.load.clients import COMPLETIONS, Address
from killpoint.systems.server.load.http_reply import HttpReply, request
from killpoint.systems.server.steps import Exchange, StopAt

_PIECE, _PAUSE = 64, 0.02
"""Bytes that a slow client reads or sends at a time, and the seconds in between."""
_SLOW_FOR = 1.5
"""Seconds after which a slow client reads as others do: answers differ much in length."""
TOO_LONG = "x " * 40_000
"""Prompt that no server takes as it is."""
_NEVER = "\u2603"
"""Character that no answer has."""
_UNKNOWN = "\ufffd"


class Dialogue:
    """Clients of one step, the control of their answers, and what the server is able to do."""

    def __init__(self, address: Address, log: Log, prompts: Sequence[str], longest: int) -> None:
        self._address, self._log, self._longest = address, log, longest
        self._prompts = list(prompts) or [f"client {n} asks about the ring" for n in range(12)]
        self._texts: dict[tuple[int, int], str] = {}
        self._lacks: set[str] = set()
        self._count = 0

    async def control(self, exchanges: Sequence[Exchange], within: float) -> bool:
        """Ask for every answer that is to come, undisturbed; return whether all were whole."""
        pairs = {(n % len(self._prompts), each.tokens) for each in exchanges for n in each.prompts}
        found = await asyncio.gather(*(self._speak(*pair, within) for pair in sorted(pairs)))
        if not all(found):
            return False
        await self._try_features(within)
        return True

    async def _try_features(self, within: float) -> None:
        """Try, undisturbed, what not every server can do, and note what this one cannot."""
        (prompt, tokens), text = max(self._texts.items(), key=lambda said: len(said[1]))
        stop = next(iter(stop_strings(text, StopAt(end=50))), "")
        plain: dict[str, object] = {"prompt": self._prompts[prompt]}
        plain |= {"max_tokens": tokens or self._longest}
        several, _ = await self._tried(plain | {"prompt": self._prompts[:2]}, within, 2)
        stops, stopped = await self._tried(plain | {"stop": [stop or _NEVER]}, within)
        stops = stops and not (stop and stop in stopped.choices[0].text)
        _, streamed = await self._tried(plain | {"stream": True}, within)
        self._log.write("marked", yes=streamed.done > 0)
        usage = plain | {"stream": True, "stream_options": {"include_usage": True}}
        told, with_usage = await self._tried(usage, within)
        told = told and with_usage.prompt_tokens is not None
        for feature, able in (("several", several), ("stop", stops), ("usage", told)):
            if not able:
                self._lacks.add(feature)
                self._log.write("lacks", feature=feature)

    async def _tried(
        self, fields: dict[str, object], within: float, choices: int = 1
    ) -> tuple[bool, Answer]:
        reply, answer, why = await self.ask(self.encoded(fields), within)
        whole = sorted(answer.choices) == list(range(choices))
        return reply.status == 200 and whole and not (why or answer.error), answer

    async def hold(self, exchanges: Sequence[Exchange], deadline: float) -> None:
        """Have every client ask, then the first one's prompt once more alone."""
        self._log.write("dialogue", exchanges=len(exchanges))
        await asyncio.gather(*(self._exchange(n, e, deadline) for n, e in enumerate(exchanges)))
        last = Exchange(exchanges[0].prompts[:1], exchanges[0].tokens)
        await self._exchange(len(exchanges), last, deadline)
        self._log.write("dialogue-ended")

    async def ask_briefly(self, within: float) -> None:
        """Ask for one token, whatever comes of it: a server that idles computes again."""
        await self.ask(self.encoded({"prompt": self._prompts[0], "max_tokens": 1}), within)

    async def _speak(self, prompt: int, tokens: int, within: float) -> bool:
        most = tokens or self._longest
        asked: dict[str, object] = {"prompt": self._prompts[prompt], "max_tokens": most}
        reply, answer, why = await self.ask(self.encoded(asked), within)
        if reply.status != 200 or why or 0 not in answer.choices:
            return False
        said = answer.choices[0]
        self._texts[prompt, tokens] = said.text
        usage = {"used": answer.completion_tokens, "read": answer.prompt_tokens}
        facts = {"prompt": prompt, "tokens": tokens, "most": most} | usage
        self._log.write("spoken", text=said.text, finish=said.finish, **facts)
        return True

    async def ask(self, data: bytes, within: float) -> tuple[HttpReply, Answer, str]:
        """Ask as usual; return what came, and the reason why the end did not."""
        reply, answer = HttpReply(), Answer()
        try:
            async with asyncio.timeout(within):
                reader, writer = await self._address.open()
                try:
                    writer.write(data)
                    await _read(reader, reply, answer, "", "")
                finally:
                    writer.transport.abort()
        except TimeoutError:
            return reply, answer, "hang"
        except OSError as error:
            return reply, answer, type(error).__name__
        return reply, answer, reply.torn

    def encoded(self, fields: dict[str, object]) -> bytes:
        """Return a request with these fields, as it is sent."""
        return self._posted(self._body(fields))

    def _body(self, fields: dict[str, object]) -> bytes:
        model = {"model": self._address.model} if self._address.model else {}
        return msgspec.json.encode(model | {"temperature": 0} | fields)

    def _posted(self, body: bytes) -> bytes:
        return request("POST", COMPLETIONS, self._address.host, body)

    # -- one client ---------------------------------------------------------------------------

    async def _exchange(self, number: int, each: Exchange, deadline: float) -> None:
        each = self._able(each)
        await asyncio.sleep(each.at)
        stops = self._stops(each)
        data = self._posted(self._content(each, stops))
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        for _ in range(1 if each.leaves or each.wrong else each.repeat):
            self._count += 1
            mine = self._count
            asked: dict[str, object] = {"exchange": number, "stops": stops}
            said = [[n % len(self._prompts), each.tokens] for n in each.prompts] * each.times
            asked |= {"stream": each.stream, "usage": each.usage, "leaves": each.leaves}
            self._log.write(
                "exchange", n=mine, said=said, wrong=each.wrong, pace=each.pace, **asked
            )
            reply, answer, end = HttpReply(), Answer(), "hang"
            again = connection is not None
            try:
                async with asyncio.timeout(deadline):
                    connection = connection or await self._address.open()
                    end = await converse(connection, data, each, reply, answer)
            except TimeoutError:
                pass
            except asyncio.CancelledError:
                end = "open"
                raise
            except OSError as error:
                end = "torn" if reply.status else "no-answer"
                answer.error = answer.error or type(error).__name__
            finally:
                if again and not reply.status and end in ("ended", "no-answer"):
                    end = "closed"  # as a server may do with a connection that it keeps open
                self._tell(mine, each, reply, answer, end)
                ends = reply.headers.get("connection", "").lower() == "close"
                if connection is not None and (end != "ended" or ends):
                    connection[1].transport.abort()
                    connection = None
        if connection is not None:
            connection[1].transport.abort()

    def _able(self, each: Exchange) -> Exchange:
        """Return the exchange without what the server was seen not to be able to do."""
        if "several" in self._lacks:
            wrong = "" if each.wrong == "last-prompt" else each.wrong
            leaves = "asked" if each.leaves == "choice" else each.leaves
            changes = {"prompts": each.prompts[:1], "times": 1, "wrong": wrong, "leaves": leaves}
            each = msgspec.structs.replace(each, **changes)
        if "stop" in self._lacks:
            each = msgspec.structs.replace(each, stops=[])
        usage = each.usage and each.stream and "usage" not in self._lacks
        return msgspec.structs.replace(each, usage=usage)

    def _stops(self, each: Exchange) -> list[str]:
        found: list[str] = []
        for stop in each.stops[:2]:  # four strings are what OpenAI's interface allows
            number = each.prompts[stop.prompt % len(each.prompts)] % len(self._prompts)
            found += stop_strings(self._texts[number, each.tokens], stop)
        return list(dict.fromkeys(found))

    def _content(self, each: Exchange, stops: list[str]) -> bytes:
        if each.wrong == "json":
            return b'{"prompt": "x", not json'
        prompts = [self._prompts[n % len(self._prompts)] for n in each.prompts] * each.times
        if each.wrong == "last-prompt":
            prompts.append(TOO_LONG)
        fields: dict[str, object] = {"prompt": prompts if len(prompts) > 1 else prompts[0]}
        if each.wrong == "prompt":
            del fields["prompt"]
        fields |= {"max_tokens": each.tokens or self._longest, "stream": each.stream}
        fields |= {"stop": stops} if stops else {}
        fields |= {"stream_options": {"include_usage": True}} if each.usage else {}
        fields |= {"model": "no-such-model"} if each.wrong == "model" else {}
        return self._body(fields)

    def _tell(self, n: int, each: Exchange, reply: HttpReply, answer: Answer, end: str) -> None:
        if end == "ended":
            end = "torn" if reply.torn and reply.status else "whole"
            end = "no-answer" if not reply.status else end
            end = "error" if reply.status not in (0, 200) or answer.error else end
        facts: dict[str, object] = {"status": reply.status, "why": answer.error or reply.torn}
        if end == "whole" and not each.leaves:
            facts["choices"] = {
                str(index): [said.text, said.finish, said.after]
                for index, said in sorted(answer.choices.items())
            }
            usage = [answer.prompt_tokens, answer.completion_tokens, answer.total_tokens]
            facts |= {"used": usage, "done": answer.done, "after": answer.after_done}
            facts |= {"streamed": reply.is_stream}
        self._log.write("exchange-end", n=n, end=end, **facts)


def stop_strings(text: str, stop: StopAt) -> list[str]:
    """Return the stop strings that a place in a text gives; none if there is none.

    The place is the last one before it, of that length or else a smaller one, without a replacement
    character, which stands for bytes that no client can ask for.
    """
    most = max(1, round(len(text) * stop.end / 100))
    for length in range(min(stop.length, len(text)), 0, -1):
        for end in range(most, length - 1, -1):
            found = text[end - length : end]
            if len(found) == length and _UNKNOWN not in found:
                never = found[1:-1] + _NEVER
                return [found, never] if stop.beside and length > 2 else [found]
    return []


async def converse(
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    data: bytes,
    each: Exchange,
    reply: HttpReply,
    answer: Answer,
) -> str:
    """Send a request and read its answer as this client does; return ``ended`` or ``left``."""
    reader, writer = connection
    head = data.index(b"\r\n\r\n") + 4
    if each.leaves in ("head", "body"):
        some = head // 2 if each.leaves == "head" else head + (len(data) - head) // 2
        writer.write(data[:some])
        await writer.drain()
        return "left"
    if each.pace == "sends-slowly":
        for begin in range(0, len(data), _PIECE):
            writer.write(data[begin : begin + _PIECE])
            await asyncio.sleep(_PAUSE)
    else:
        writer.write(data)
    await writer.drain()
    if each.pace == "half-closes":
        with contextlib.suppress(OSError):
            writer.write_eof()
    if each.leaves == "asked":
        await asyncio.sleep(_PAUSE)
        return "left"
    return await _read(reader, reply, answer, each.pace, each.leaves)


async def _read(
    reader: asyncio.StreamReader, reply: HttpReply, answer: Answer, pace: str, leaves: str
) -> str:
    slow_until = time.monotonic() + _SLOW_FOR
    while not reply.over:
        slow = pace == "reads-slowly" and time.monotonic() < slow_until
        more = await reader.read(_PIECE if slow else 1 << 16)
        if more:
            reply.feed(more)
        else:
            reply.end_of_file()
        answer.take(reply)
        if leaves == "piece" and answer.choices:
            return "left"
        if leaves == "choice" and any(said.finish for said in answer.choices.values()):
            return "left"
        if slow:
            await asyncio.sleep(_PAUSE)
    return "ended"
