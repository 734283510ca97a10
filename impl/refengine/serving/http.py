"""Errors in the shape that OpenAI's clients read, and the reading of a request's body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ..engine import EngineClosed, EngineFull, EngineSilent, RequestFailed
from ..errors import RefengineError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

MAX_BODY_BYTES = 4 << 20
_BODY_WITHIN = 30.0  # seconds for a request's body to come
_KINDS = {
    401: "authentication_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable_error",
}


class ClientGone(ConnectionError):
    """The client has hung up, so there is no one to answer."""


class ApiError(RefengineError):
    """An HTTP status and the reason in a sentence; `field` of the request, if one is at fault."""

    def __init__(
        self,
        status: int,
        reason: str,
        field: str | None = None,
        code: str = "",
        retry_after: int = 1,
    ) -> None:
        self.status, self.reason, self.field, self.code = status, reason, field, code
        self.retry_after = retry_after
        """Seconds after which a client may ask again, where that makes sense."""
        super().__init__(reason, status, reason, field, code, retry_after)

    @classmethod
    def from_error(cls, error: BaseException) -> ApiError:
        """Return the HTTP form of an engine's error."""
        match error:
            case ApiError():
                return error
            case EngineFull():
                return cls(429, str(error), code="engine_full")
            case EngineClosed():
                return cls(503, str(error), code="engine_closed")
            case EngineSilent():
                return cls(503, str(error), code="engine_silent")
            case RequestFailed():
                return cls(500, str(error), code="request_failed")
            case _:
                return cls(500, f"{type(error).__name__}: {error}")

    @property
    def headers(self) -> dict[str, str]:
        """Headers beyond those of every response."""
        match self.status:
            case 401:
                return {"www-authenticate": "Bearer"}
            case 429 | 503:
                return {"retry-after": str(self.retry_after)}
            case _:
                return {}

    @property
    def body(self) -> dict[str, Any]:
        """Content to send as JSON; in a stream, as an event."""
        kind = _KINDS.get(self.status, "invalid_request_error")
        error = {"message": self.reason, "type": kind, "param": self.field}
        return {"error": error | {"code": self.code or None}}


async def read_body(receive: Receive) -> bytes:
    """Read the whole body. Raises ApiError if it is too long or too slow (SPEC S4), ClientGone."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_WITHIN):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("the client hung up while it asked")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > MAX_BODY_BYTES:
                    raise ApiError(
                        413, f"a request's body may have {MAX_BODY_BYTES} bytes, not more"
                    )
    except TimeoutError:
        raise ApiError(408, f"the request's body did not come within {_BODY_WITHIN:g} s") from None
    return bytes(body)
