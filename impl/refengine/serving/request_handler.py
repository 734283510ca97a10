"""One HTTP request in flight: a stream and a choice for each prompt, and the waiting client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from ..base.clock import Clock
from ..engine import ServedEngine, Stream
from ..engine.front_end.streams import StreamEvent
from .completion import Choice, CompletionRequest, Piece
from .http import ApiError, ClientGone, Receive
from .metrics import Metrics, Timing


class StreamMerger:
    """Merges several streams' events into one sequence, from the engine's thread to an event loop.

    To be made in the event loop that takes the events.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[int, StreamEvent]] = asyncio.Queue()

    def add(self, index: int, stream: Stream) -> None:
        """Receive this stream's events from now on, with the index."""
        stream.subscribe(lambda event: self.put(index, event))

    def put(self, index: int, event: StreamEvent) -> None:
        """Put an event, from any thread; dropped once the loop has closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (index, event))

    async def next(self) -> tuple[int, StreamEvent]:
        """Return the next event of any stream, with its index."""
        return await self._queue.get()


class RequestHandler:
    """Runs one request on the engine, and keeps its choices so far."""

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
        """Submit all prompts or none; on leaving, cancel those that have not ended.

        Raises:
            ApiError: the request can never be served.
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
        """Return the index of the next choice to grow, and its new piece; call until `done`.

        Raises:
            ClientGone: the client has hung up.
            RequestFailed, EngineClosed, ApiError: the request has failed.
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
        """Have `next` raise this error; from any thread."""
        self._merger.put(0, cause)

    @property
    def done(self) -> bool:
        """True if every choice has its finish."""
        return all(choice.finish for choice in self.choices)

    @property
    def usage(self) -> dict[str, int]:
        """Token counts so far, as OpenAI's `usage`."""
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
