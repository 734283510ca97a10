"""The endpoints: `/v1/completions`, whole or as a stream of events; models, health, metrics."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import asdict
from typing import Any

import msgspec
from prometheus_client import exposition
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..engine.model.tokens import TextStream
from ..errors import RefengineError
from .completion import CompletionRequest, decode_request
from .http import ApiError, ClientGone, Receive, read_body
from .request_handler import RequestHandler
from .service import Service

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

QUESTIONS = {"live": "alive", "ready": "ready", "progress": "progressing"}
"""Question of `Health` that each path `/health/…` answers, by its last part."""

_log = logging.getLogger(__name__)
_JSON = {"content-type": "application/json"}
_EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # have proxies forward each event at once
}


class Completions:
    """The endpoint, as an ASGI application. A client that hangs up has its request cancelled."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, _: object, receive: Receive, send: Send) -> None:
        """Answer one request, whatever its outcome (SPEC E1)."""
        answer = _Answer(self._service, send)
        status = "gone"
        try:
            await answer.respond(receive)
            status = str(answer.status)
        except ClientGone as gone:
            _log.debug("%s: %s", answer.name, gone)
        finally:
            self._service.metrics.answers.labels(status).inc()


class _Answer:
    """One response; `status` is the HTTP status that was sent, 0 before any."""

    def __init__(self, service: Service, send: Send) -> None:
        self.status = 0
        self.name = f"cmpl-{secrets.token_hex(12)}"
        self._service, self._send = service, send
        self._created = int(service.wall())

    async def respond(self, receive: Receive) -> None:
        """Send the completion, or an error in its place; raises ClientGone."""
        try:
            request = decode_request(await read_body(receive))
            if request.model not in (None, self._service.model):
                reason = f"the model {request.model!r} is not served; {self._service.model!r} is"
                raise ApiError(404, reason, "model", "model_not_found")
            handler = RequestHandler(request, self._service.metrics, self._service.clock)
        except ClientGone:
            raise
        except Exception as error:
            await self._refuse(error)
        else:
            with self._service.drain.answering(handler.fail):
                await self._answer(request, handler, receive)

    async def _answer(
        self, request: CompletionRequest, handler: RequestHandler, receive: Receive
    ) -> None:
        try:
            async with handler.submitted(self._service.require_engine(), self.name, receive):
                await (self._stream if request.stream else self._whole)(request, handler)
        except ClientGone:
            raise
        except Exception as error:
            await self._refuse(error)

    async def _whole(self, request: CompletionRequest, handler: RequestHandler) -> None:
        while not handler.done:
            await handler.next()
        choices = [
            self._choice(index, echoed + choice.text, choice.tokens, choice.finish)
            for index, (echoed, choice) in enumerate(
                zip(_echoes(request, handler), handler.choices, strict=True)
            )
        ]
        await self._json(200, self._completion(choices) | {"usage": handler.usage})

    async def _stream(self, request: CompletionRequest, handler: RequestHandler) -> None:
        """Stream events, none before the first tokens: until then a refusal is possible."""
        echoes = _echoes(request, handler)
        usage = bool(request.stream_options and request.stream_options.include_usage)
        beside = {"usage": None} if usage else {}
        while not handler.done:
            index, piece = await handler.next()
            if not self.status:
                await self._begin(200, _EVENTS)
            text, echoes[index] = echoes[index] + piece.text, ""
            choice = self._choice(index, text, piece.tokens, piece.finish)
            await self._event(self._completion([choice]) | beside)
        if usage:
            await self._event(self._completion([]) | {"usage": handler.usage})
        await self._end(b"data: [DONE]\n\n")

    async def _refuse(self, error: Exception) -> None:
        refused = ApiError.from_error(error)
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


def _echoes(request: CompletionRequest, handler: RequestHandler) -> list[str]:
    """Return the text to put before each completion."""
    if not request.echo:
        return [""] * len(handler.prompts)
    echoes: list[str] = []
    for prompt in handler.prompts:
        text = TextStream()
        echoes.append(text.push(prompt) + text.finish())
    return echoes


class StatusRoutes:
    """Endpoints for models, health and metrics."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def health(self, _: Request) -> Response:
        """Answer the three questions, with replicas and drain (SPEC E4): 200 if all are yes."""
        health = asdict(self._service.health())
        yes = all(health[question] for question in QUESTIONS.values())
        return _answered(health | self._service.about(), yes)

    async def one_question(self, request: Request) -> Response:
        """Answer one of the three questions: 200 for yes, 503 for no."""
        question = QUESTIONS.get(request.path_params["question"])
        if question is None:
            raise ApiError(404, f"/health has {', '.join(QUESTIONS)} below it")
        answer = asdict(self._service.health())[question]
        return _answered({question: answer}, answer)

    async def models(self, _: Request) -> Response:
        """List the one model."""
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """Describe the model, by its name."""
        if (name := request.path_params["name"]) != self._service.model:
            raise ApiError(404, f"the model {name!r} is not served", "model", "model_not_found")
        return JSONResponse(self._model())

    async def metrics(self, request: Request) -> Response:
        """Send the metrics in the format that Prometheus asks for."""
        encode, kind = exposition.choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._service.metrics.registry), headers={"content-type": kind})

    def _model(self) -> dict[str, object]:
        return {
            "id": self._service.model,
            "object": "model",
            "created": self._service.began,
            "owned_by": "refengine",
        }


def _answered(answer: object, yes: bool) -> Response:
    headers = {"cache-control": "no-store"}
    return JSONResponse(answer, 200 if yes else 503, headers=headers)
