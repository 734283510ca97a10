"""`/v1/completions`: OpenAI's, for greedy decoding; whole or as a stream of events."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from ..engine.tokens import TextStream
from ..errors import RefengineError
from .body import read_body
from .completion_request import CompletionRequest, decode
from .order import ClientGone, Order, Receive
from .refused import Refused
from .service import Service

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger(__name__)
_JSON = {"content-type": "application/json"}
_EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # a proxy is to hand each event on at once
}


class Completions:
    """The endpoint, as an ASGI application. A client that hangs up has its request cancelled."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, _: object, receive: Receive, send: Send) -> None:
        """Answer one request, whatever becomes of it (SPEC E1)."""
        answer = _Answer(self._service, send)
        status = "gone"
        try:
            await answer.give(receive)
            status = str(answer.status)
        except ClientGone as gone:
            _log.debug("%s: %s", answer.name, gone)
        finally:
            self._service.metrics.answers.labels(status).inc()


class _Answer:
    """One answer; `status` is what the client was told, 0 as long as it was told nothing."""

    def __init__(self, service: Service, send: Send) -> None:
        self.status = 0
        self.name = f"cmpl-{secrets.token_hex(12)}"
        self._service, self._send = service, send
        self._created = int(service.wall())

    async def give(self, receive: Receive) -> None:
        """The completion, or in its place the reason why there is none; raises ClientGone."""
        try:
            asked = decode(await read_body(receive))
            if asked.model not in (None, self._service.model):
                reason = f"the model {asked.model!r} is not served; {self._service.model!r} is"
                raise Refused(404, reason, "model", "model_not_found")
            order = Order(asked, self._service.metrics, self._service.clock)
        except ClientGone:
            raise
        except Exception as error:
            await self._refuse(error)
        else:
            with self._service.drain.answering(order.end):
                await self._answer(asked, order, receive)

    async def _answer(self, asked: CompletionRequest, order: Order, receive: Receive) -> None:
        try:
            async with order.under_way(self._service.running(), self.name, receive):
                await (self._stream if asked.stream else self._whole)(asked, order)
        except ClientGone:
            raise
        except Exception as error:
            await self._refuse(error)

    async def _whole(self, asked: CompletionRequest, order: Order) -> None:
        while not order.done:
            await order.next()
        choices = [
            self._choice(index, echoed + choice.text, choice.tokens, choice.finish)
            for index, (echoed, choice) in enumerate(
                zip(_echoes(asked, order), order.choices, strict=True)
            )
        ]
        await self._json(200, self._completion(choices) | {"usage": order.usage})

    async def _stream(self, asked: CompletionRequest, order: Order) -> None:
        """Nothing is said before the first tokens have come: until then it may be refused."""
        echoes = _echoes(asked, order)
        usage = bool(asked.stream_options and asked.stream_options.include_usage)
        beside = {"usage": None} if usage else {}
        while not order.done:
            index, piece = await order.next()
            if not self.status:
                await self._begin(200, _EVENTS)
            text, echoes[index] = echoes[index] + piece.text, ""
            choice = self._choice(index, text, piece.tokens, piece.finish)
            await self._event(self._completion([choice]) | beside)
        if usage:
            await self._event(self._completion([]) | {"usage": order.usage})
        await self._end(b"data: [DONE]\n\n")

    async def _refuse(self, error: Exception) -> None:
        refused = Refused.because(error)
        if refused.status == 500:
            known = isinstance(error, RefengineError)
            _log.error("%s: %s", self.name, refused, exc_info=None if known else error)
        if not self.status:
            await self._json(refused.status, refused.body, refused.headers)
        else:  # too late for another status
            self.status = refused.status
            await self._event(refused.body)
            await self._end(b"data: [DONE]\n\n")

    def _completion(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.name,
            "object": "text_completion",
            "created": self._created,
            "model": self._service.model,
            "choices": choices,
        }

    def _choice(self, index: int, text: str, tokens: Any, finish: str | None) -> dict[str, Any]:
        return {
            "index": index,
            "text": text,
            "token_ids": tokens,
            "logprobs": None,
            "finish_reason": finish,
        }

    async def _json(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        encoded = msgspec.json.encode(body)
        length = {"content-length": str(len(encoded))}
        await self._begin(status, _JSON | length | (headers or {}))
        await self._end(encoded)

    async def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.status = status
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def _event(self, content: object) -> None:
        body = b"data: " + msgspec.json.encode(content) + b"\n\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _end(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _echoes(asked: CompletionRequest, order: Order) -> list[str]:
    """What stands before each text."""
    if not asked.echo:
        return [""] * len(order.prompts)
    echoes: list[str] = []
    for prompt in order.prompts:
        text = TextStream()
        echoes.append(text.push(prompt) + text.finish())
    return echoes
