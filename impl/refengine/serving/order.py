"""One request under way: a stream and a choice for each prompt, and the client that waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from typing import Any

from ..clock import Clock
from ..engine import ServedEngine, Stream
from .choice import Choice, Piece
from .completion_request import CompletionRequest
from .following import Following
from .metrics import Metrics, Timing
from .refused import Refused

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientGone(ConnectionError):
    """The client has hung up: nobody is there to be answered."""


class Order:
    """What was asked of the engine, and what has come of it so far."""

    def __init__(self, asked: CompletionRequest, metrics: Metrics, clock: Clock) -> None:
        self.prompts = asked.prompts()
        self.choices = [Choice(asked.stops()) for _ in self.prompts]
        self._most = asked.most()
        self._timings = [Timing(metrics, clock) for _ in self.prompts]
        self._streams: list[Stream] = []
        self._following = Following()

    @contextlib.asynccontextmanager
    async def under_way(
        self, engine: ServedEngine, name: str, receive: Receive
    ) -> AsyncGenerator[Order]:
        """Submitted, all of it or nothing; on leaving, what has not ended is cancelled.

        Raises:
            Refused: it can never be served.
            EngineFull, EngineClosed: it is not served now.
        """
        watch = asyncio.create_task(self._watch(receive))
        try:
            for index, prompt in enumerate(self.prompts):
                self._submit(engine, prompt, f"{name}-{index}")
            yield self
        finally:
            watch.cancel()
            for stream, choice in zip(self._streams, self.choices, strict=False):
                if choice.finish is None:
                    stream.cancel()

    def _submit(self, engine: ServedEngine, prompt: list[int], name: str) -> None:
        try:
            stream = engine.submit(prompt, self._most, request_id=name)
        except ValueError as error:
            raise Refused(400, str(error), "prompt") from None
        self._streams.append(stream)
        self._following.follow(len(self._streams) - 1, stream)

    async def next(self) -> tuple[int, Piece]:
        """Which choice has grown, and by what; to be asked until `done`.

        Raises:
            ClientGone: there is nobody to tell.
            RequestFailed, EngineClosed, Refused: there will be no more.
        """
        while True:
            index, news = await self._following.next()
            if isinstance(news, BaseException):
                raise news
            choice = self.choices[index]
            if choice.finish is None:
                break
        piece = choice.take(news)
        self._timings[index].took(piece)
        if piece.finish and not news.finish:  # a stop string: the model would go on
            self._streams[index].cancel()
        return index, piece

    def end(self, cause: Refused) -> None:
        """Have `next` raise this, from any thread."""
        self._following.tell(0, cause)

    @property
    def done(self) -> bool:
        """Whether every choice has its finish."""
        return all(choice.finish for choice in self.choices)

    @property
    def usage(self) -> dict[str, int]:
        """Tokens, so far."""
        prompt = sum(map(len, self.prompts))
        completion = sum(len(choice.tokens) for choice in self.choices)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._following.tell(0, ClientGone("the client hung up"))
