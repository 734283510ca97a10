"""One step: what a core tells all its workers, and what each gives back."""

import msgspec


class Row(msgspec.Struct, frozen=True, array_like=True):
    """Some tokens of one request, from position `start` on."""

    request_id: str
    tokens: tuple[int, ...]
    start: int
    table: tuple[int, ...]
    """KV blocks of positions 0 … start + len(tokens) - 1, in order."""
    sample: bool
    """Whether its next token is wanted."""


class Transfer(msgspec.Struct, frozen=True, array_like=True):
    """KV blocks that go over a link."""

    transfer_id: str
    link: str
    table: tuple[int, ...]


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """Without rows it only asks for the ends of transfers."""

    rows: tuple[Row, ...] = ()
    fetch: tuple[Transfer, ...] = ()
    """To be begun: blocks that come."""
    send: tuple[Transfer, ...] = ()
    """To be begun: blocks that go."""


class StepResult(msgspec.Struct, array_like=True):
    """Of one rank."""

    tokens: list[int | None] = []
    """By row; None where none was wanted."""
    kv_done: tuple[str, ...] = ()
    """Transfers that have ended well since the last step; nothing touches their blocks now."""
    kv_failed: tuple[str, ...] = ()
    """Transfers that have come to nothing since; nothing touches their blocks now."""
