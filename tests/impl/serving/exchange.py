"""A client of an ASGI application, without a socket: what it is sent, and when it hangs up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, MutableMapping
from typing import Any

SECONDS = 5.0


class Exchange:
    """One request and its answer. Made and used within an event loop."""

    def __init__(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> None:
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        self._requests = [
            {"type": "http.request", "body": raw[:5], "more_body": True},
            {"type": "http.request", "body": raw[5:], "more_body": False},
        ]
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": [(n.lower().encode(), v.encode()) for n, v in (headers or {}).items()],
            "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 4242),
        }
        self.sent: list[MutableMapping[str, Any]] = []
        self._changed = asyncio.Condition()
        self._hung_up = asyncio.Event()

    async def play(self, app: Any) -> Exchange:
        """The whole of it."""
        async with asyncio.timeout(SECONDS):
            await app(self.scope, self._receive, self._send)
        return self

    def hang_up(self) -> None:
        self._hung_up.set()

    async def until(self, met: Callable[[Exchange], bool]) -> None:
        """Until what was sent is as it should be."""
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(lambda: met(self))

    @property
    def status(self) -> int:
        return self.sent[0]["status"] if self.sent else 0

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """Of a stream, without the last one, which says that it is done."""
        *events, done, rest = self.body.decode().split("\n\n")
        assert (done, rest) == ("data: [DONE]", "")
        assert all(event.startswith("data: ") for event in events)
        return [json.loads(event.removeprefix("data: ")) for event in events]

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._requests:
            return self._requests.pop(0)
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        async with self._changed:
            self.sent.append(message)
            self._changed.notify_all()


def answer(app: Any, method: str, path: str, body: object = None, **headers: str) -> Exchange:
    """What a client that waits is answered."""

    async def play() -> Exchange:
        return await Exchange(method, path, body, headers).play(app)

    return asyncio.run(play())
