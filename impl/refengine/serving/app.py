"""The ASGI application: routes, the API key, and error responses."""

from __future__ import annotations

import hmac

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .http import ApiError
from .routes import Completions, StatusRoutes
from .service import Service


def application(service: Service, key: bytes = b"") -> ASGIApp:
    """Return the application; with a key, all paths but health need it."""
    status = StatusRoutes(service)
    app = Starlette(
        routes=[
            Route("/v1/completions", Completions(service), methods=["POST"]),
            Route("/v1/models", status.models),
            Route("/v1/models/{name:path}", status.model),
            Route("/health", status.health),
            Route("/health/{question}", status.one_question),
            Route("/metrics", status.metrics),
        ],
        exception_handlers={ApiError: _refused, HTTPException: _no_such, Exception: _refused},
    )
    return _Draining(_RequireKey(app, key) if key else app, service)


class _Draining:
    """Middleware that closes each connection after its response while the server drains."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._drain = app, service.drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._drain.has_begun:
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive, closing)


class _RequireKey:
    """Middleware that refuses requests without the key (SPEC S3); health needs none."""

    def __init__(self, app: ASGIApp, key: bytes) -> None:
        self._app, self._expected = app, b"Bearer " + key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope["path"].startswith("/health"):
            offered = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(offered, self._expected):
                reason = "send the key as Authorization: Bearer KEY"
                await _response(ApiError(401, reason, code="invalid_api_key"))(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _refused(_: Request, error: Exception) -> Response:
    return _response(ApiError.from_error(error))


async def _no_such(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reason = f"{request.method} {request.url.path}: {error.detail}"
    return _response(ApiError(error.status_code, reason), dict(error.headers or {}))


def _response(refused: ApiError, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(refused.body, refused.status, refused.headers | (headers or {}))
