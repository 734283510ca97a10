"""What is asked of a replica, and what it gives."""

import msgspec

from ..errors import RefengineError


class Request(msgspec.Struct, frozen=True, array_like=True):
    """Continue `prompt` by at most `max_tokens`.

    With `export` a replica makes the first token only, and lends the prompt's KV blocks to the
    other end of that KV link. With `imported` it gets those of all tokens but the last by that
    link; should they not come, it computes them itself.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    export: str | None = None
    """Name of a KV link."""
    imported: str | None = None
    """Name of a KV link."""
    transfer: str = ""
    """What both ends call the blocks; empty: the id. Each attempt needs its own."""

    @property
    def by_link(self) -> bool:
        """Whether KV blocks of it come or go."""
        return self.export is not None or self.imported is not None

    @property
    def transfer_id(self) -> str:
        """What both ends call the blocks."""
        return self.transfer or self.id


class Output(msgspec.Struct, frozen=True, array_like=True):
    """What one step gave one request."""

    id: str
    tokens: tuple[int, ...] = ()
    """New ones. END is not among them."""
    finish: str | None = None
    """`stop` (the model ended it), `length`, `cancelled`, or `exported`: its blocks are ready."""


class RequestRefused(RefengineError, ValueError):
    """This request can never be served here; nothing was begun."""

    def __init__(self, request_id: str, reason: str) -> None:
        self.request_id, self.reason = request_id, reason
        super().__init__(f"request {request_id!r} is refused: {reason}", request_id, reason)
