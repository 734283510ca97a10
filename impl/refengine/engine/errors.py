"""Errors of an engine or a request, as types that carry the facts (SPEC E1)."""

from ..errors import RefengineError


class EngineFailed(RefengineError):
    """A part of the engine, named by `part`, did not start, or cannot be restarted."""

    def __init__(self, part: str, reason: str) -> None:
        self.part, self.reason = part, reason
        super().__init__(f"{part} cannot serve: {reason}", part, reason)


class EngineFull(RefengineError):
    """Too many requests wait already, and this one was not taken. Submit it again later."""

    def __init__(self, waiting: int, limit: int) -> None:
        self.waiting, self.limit = waiting, limit
        text = f"{waiting} requests wait, and {limit} may; submit it again when some have ended"
        super().__init__(text, waiting, limit)


class EngineClosed(RefengineError):
    """The engine was closed; open requests end with this error."""

    def __init__(self, operation: str) -> None:
        self.operation = operation
        super().__init__(f"{operation}: the engine is closed; make a new one", operation)


class EngineSilent(RefengineError):
    """The engine's process has sent no heartbeat for `seconds`, so its state is unknown."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        text = f"the engine's process gave no sign of life for {seconds:.1f} s; is it stopped?"
        super().__init__(text, seconds)


class RequestFailed(RefengineError):
    """A request ended without a finish (SPEC E1); its tokens so far are right but incomplete."""

    def __init__(self, request_id: str, cause: str, tokens_so_far: tuple[int, ...] = ()) -> None:
        self.request_id, self.cause, self.tokens_so_far = request_id, cause, tokens_so_far
        text = f"request {request_id} failed after {len(tokens_so_far)} tokens: {cause}"
        super().__init__(text, request_id, cause, tokens_so_far)


class StreamEnded(RefengineError):
    """All deltas of this stream were taken; the last one had a finish."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        super().__init__(f"nothing comes of request {request_id} after its finish", request_id)


class RequestRefused(RefengineError, ValueError):
    """A request that can never be served here; nothing was begun."""

    def __init__(self, request_id: str, reason: str) -> None:
        self.request_id, self.reason = request_id, reason
        super().__init__(f"request {request_id!r} is refused: {reason}", request_id, reason)
