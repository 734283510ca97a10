"""What a client is told instead of an answer, in the shape that OpenAI's clients read."""

from __future__ import annotations

from typing import Any

from ..engine import EngineClosed, EngineFull, EngineSilent, RequestFailed
from ..errors import RefengineError

_KINDS = {
    401: "authentication_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable_error",
}


class Refused(RefengineError):
    """An HTTP status and the reason in a sentence; `field` of the request, if one is at fault."""

    def __init__(
        self,
        status: int,
        reason: str,
        field: str | None = None,
        code: str = "",
        again_in: int = 1,
    ) -> None:
        self.status, self.reason, self.field, self.code = status, reason, field, code
        self.again_in = again_in
        """Seconds after which it makes sense to ask again, where it does."""
        super().__init__(reason, status, reason, field, code, again_in)

    @classmethod
    def because(cls, error: BaseException) -> Refused:
        """What an engine's error is over HTTP."""
        match error:
            case Refused():
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
        """Beyond those that every answer has."""
        match self.status:
            case 401:
                return {"www-authenticate": "Bearer"}
            case 429 | 503:
                return {"retry-after": str(self.again_in)}
            case _:
                return {}

    @property
    def body(self) -> dict[str, Any]:
        """To be sent as JSON; in a stream, as an event."""
        kind = _KINDS.get(self.status, "invalid_request_error")
        error = {"message": self.reason, "type": kind, "param": self.field}
        return {"error": error | {"code": self.code or None}}
