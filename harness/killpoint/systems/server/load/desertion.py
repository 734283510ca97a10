"""Desertion: a client asks for far more than is computed while it waits, and is gone.

Its prompts differ from their first characters on, so that no cache has any of them, and each is to
have one token: they cost the same whatever the model has to say. Their length is fitted to the
server's own speed, so that what is left would occupy it for long enough on any machine.

The log records ``fitted`` with the characters of a prompt and the seconds that all of them take,
and ``deserted`` of each client: how it left, and with what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from killpoint.history.log import Log
from killpoint.systems.server.load.answer import Answer
from killpoint.systems.server.load.dialogue import TOO_LONG, converse
from killpoint.systems.server.load.http_reply import HttpReply
from killpoint.systems.server.steps import Deserts, Exchange

_PROBES = 2
"""Number of prompts that are asked undisturbed to measure the server's speed."""
_SHORTEST, _LONGEST = 128, 8192
"""Characters of the shortest and of the longest prompt that is tried."""
_SHORT = "who is there?"
_FILLER = "the ring goes round, and "
Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Function that opens a connection to the server."""


class Asker(Protocol):
    """A client that asks a server, as :class:`.dialogue.Dialogue` does."""

    async def ask(self, data: bytes, within: float) -> tuple[HttpReply, Answer, str]:
        """Send a request; return its answer, and the reason why the end did not come."""
        ...

    def encoded(self, fields: dict[str, object]) -> bytes:
        """Return a request with these fields, as it is sent."""
        ...


class Desertion:
    """Deserting clients of one step, with prompts of the length that :meth:`fit` finds."""

    def __init__(
        self,
        asker: Asker,
        log: Log,
        prompts: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._asker, self._log, self._prompts, self._clock = asker, log, prompts, clock
        self.characters = 0
        """Characters of a prompt; 0: the server does not take several."""
        self.refuses = False
        """True if the server was seen to refuse several prompts of which one is too long."""
        self._made = 0

    async def fit(self, seconds: float, within: float) -> bool:
        """Find prompts of which a crowd takes so many seconds; return whether there are any.

        Where the server refuses prompts that are long enough, they are the longest that it takes.
        """
        short = await self._takes([_SHORT], within)
        if short is None:
            return False
        characters, all_take = _SHORTEST, 0.0
        while characters <= _LONGEST and all_take < seconds:
            took = await self._all_take(characters, short, within)
            if took is not None and took >= seconds:  # which one pause of the machine may feign
                again = await self._all_take(characters, short, within)
                took = took if again is None else min(took, again)
            if took is None:
                break
            self.characters, all_take = characters, took
            characters *= 2
        if self.characters:
            fields: dict[str, object] = {"prompt": [_SHORT, TOO_LONG], "max_tokens": 1}
            reply, _, _ = await self._asker.ask(self._asker.encoded(fields), within)
            self.refuses = 400 <= reply.status < 500
            self._log.write("fitted", characters=self.characters, s=round(all_take, 3))
        return self.characters > 0

    async def _all_take(self, characters: int, short: float, within: float) -> float | None:
        """Return the seconds that the crowd takes by the time of some; None if they are refused."""
        took = await self._takes(self._long(_PROBES, characters), within)
        return None if took is None else max(took - short, 0.0) * self._prompts / _PROBES

    async def _takes(self, prompts: Sequence[str], within: float) -> float | None:
        """Return the seconds until all of these have their token; None: they have not."""
        one = prompts[0] if len(prompts) == 1 else list(prompts)
        data = self._asker.encoded({"prompt": one, "max_tokens": 1})
        began = self._clock()
        reply, answer, why = await self._asker.ask(data, within)
        whole = reply.status == 200 and sorted(answer.choices) == list(range(len(prompts)))
        return None if why or answer.error or not whole else self._clock() - began

    def _long(self, count: int, characters: int) -> list[str]:
        """Return prompts of this length that nobody has asked for."""
        first, self._made = self._made, self._made + count
        filler = _FILLER * (characters // len(_FILLER) + 1)
        return [f"{n} {filler}"[:characters] for n in range(first, first + count)]

    def request(self, how: Deserts) -> bytes:
        """Return the request of a client that leaves so."""
        long = self._long(self._prompts, self.characters)
        prompts = [_SHORT, *long] if how == "choice" else [*long, TOO_LONG]
        fields: dict[str, object] = {"prompt": prompts, "max_tokens": 1}
        return self._asker.encoded(fields | {"stream": how == "choice"})

    async def leave(self, how: Deserts, open: Open, deadline: float) -> None:
        """Have a client ask, and leave with the end of its first completion, or its refusal.

        One that has neither by the deadline leaves then.
        """
        if how == "last-prompt" and not self.refuses:
            return
        reply, answer, end = HttpReply(), Answer(), "gave-up"
        each = Exchange([0], 1, stream=True, leaves="choice" if how == "choice" else "")
        data = self.request(how)
        try:
            async with asyncio.timeout(deadline):
                connection = await open()
                try:
                    end = await converse(connection, data, each, reply, answer)
                finally:
                    connection[1].transport.abort()
        except TimeoutError:
            pass
        except OSError:
            end = "torn"
        facts = {"prompts": self._prompts, "characters": self.characters}
        self._log.write("deserted", how=how, end=end, status=reply.status, **facts)
