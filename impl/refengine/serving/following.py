"""From the engine's thread to an event loop: what comes of several streams, in one sequence."""

from __future__ import annotations

import asyncio
import contextlib

from ..engine import Stream
from ..engine.stream import News


class Following:
    """Made in the event loop that takes from it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._came: asyncio.Queue[tuple[int, News]] = asyncio.Queue()

    def follow(self, index: int, stream: Stream) -> None:
        """From now on what comes of this stream comes here, with the index."""
        stream.subscribe(lambda news: self.tell(index, news))

    def tell(self, index: int, news: News) -> None:
        """From any thread. Once the loop has closed nobody is there to hear it."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._came.put_nowait, (index, news))

    async def next(self) -> tuple[int, News]:
        """The next thing that came, of any of them."""
        return await self._came.get()
