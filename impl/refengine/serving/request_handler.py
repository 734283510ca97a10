"""One request under way: a stream and a choice for each prompt, and the client that waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from ..clock import Clock
from ..engine import ServedEngine, Stream
from ..engine.front_end.streams import StreamEvent
from .completion import Choice, CompletionRequest, Piece
from .http import ApiError, ClientGone, Receive
from .metrics import Metrics, Timing


class StreamMerger:
    """Made in the event loop that takes from it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[int, StreamEvent]] = asyncio.Queue()

    def add(self, index: int, stream: Stream) -> None:
        """From now on what comes of this stream comes here, with the index."""
        stream.subscribe(lambda event: self.put(index, event))

    def put(self, index: int, event: StreamEvent) -> None:
        """From any thread. Once the loop has closed nobody is there to hear it."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (index, event))

    async def next(self) -> tuple[int, StreamEvent]:
        """The next thing that came, of any of them."""
        return await self._queue.get()


class RequestHandler:
    """What was asked of the engine, and what has come of it so far."""

    def __init__(self, request: CompletionRequest, metrics: Metrics, clock: Clock) -> None:
        self.prompts = request.prompts()
        self.choices = [Choice(request.stops()) for _ in self.prompts]
        self._max_tokens = request.token_limit()
        self._timings = [Timing(metrics, clock) for _ in self.prompts]
        self._streams: list[Stream] = []
        self._merger = StreamMerger()

    @contextlib.asynccontextmanager
    async def submitted(
        self, engine: ServedEngine, name: str, receive: Receive
    ) -> AsyncGenerator[RequestHandler]:
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
            stream = engine.submit(prompt, self._max_tokens, request_id=name)
        except ValueError as error:
            raise ApiError(400, str(error), "prompt") from None
        self._streams.append(stream)
        self._merger.add(len(self._streams) - 1, stream)

    async def next(self) -> tuple[int, Piece]:
        """Which choice has grown, and by what; to be asked until `done`.

        Raises:
            ClientGone: there is nobody to tell.
            RequestFailed, EngineClosed, Refused: there will be no more.
        """
        while True:
            index, event = await self._merger.next()
            if isinstance(event, BaseException):
                raise event
            choice = self.choices[index]
            if choice.finish is None:
                break
        piece = choice.take(event)
        self._timings[index].record(piece)
        if piece.finish and not event.finish:  # a stop string: the model would go on
            self._streams[index].cancel()
        return index, piece

    def fail(self, cause: ApiError) -> None:
        """Have `next` raise this, from any thread."""
        self._merger.put(0, cause)

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
        self._merger.put(0, ClientGone("the client hung up"))
