"""The reference's KV-transfer pipe as capability ``pipe``."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol, cast

from killpoint.targets.protocol import Outcome
from refengine.pipe import (
    MetadataRefused,
    Pipe,
    PipeClosed,
    PipeSettings,
    SendFailed,
    TensorRefused,
    TensorsLost,
    TransferFailed,
)

OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (PipeClosed, "closed"),
    (TensorsLost, "lost"),
    (MetadataRefused, "refused"),
    (TensorRefused, "refused"),
    (SendFailed, "failed"),
    (TransferFailed, "failed"),
)
_OPENING = 300.0  # the pipe's own default
_KEY = hashlib.sha256(b"the ranks of a play").digest()


class Shape(Protocol):
    """A pipe to be made."""

    @property
    def size(self) -> int:
        """How many ranks."""
        ...

    @property
    def device(self) -> str:
        """Where its tensors are."""
        ...

    @property
    def transport(self) -> str:
        """By what it carries them; empty: as it likes."""
        ...

    @property
    def buffer_bytes(self) -> int:
        """How many unsent bytes it keeps."""
        ...


class PipeOfRefengine:
    """The part of the adapter that senders and receivers need."""

    def pipe_make(
        self, rank: int, shape: Shape, host: str, port: int, timeout: float | None
    ) -> Pipe:
        """One rank's end."""
        transport = cast("Any", shape.transport or "auto")
        settings = PipeSettings(buffer_bytes=shape.buffer_bytes, transport=transport)
        return Pipe(
            host,
            port,
            rank,
            shape.size,
            key=_KEY,
            device=shape.device,
            settings=settings,
            timeout=_OPENING if timeout is None else timeout,
        )

    def pipe_send(self, end: Pipe, tensor: Any | None, timeout: float | None) -> None:
        """To the next rank."""
        end.send_tensor(tensor, timeout)

    def pipe_recv(self, end: Pipe, timeout: float | None) -> Any:
        """From the rank before."""
        return end.recv_tensor(timeout)

    def pipe_buffered(self, end: Pipe) -> int:
        """Bytes not yet sent."""
        return end.buffer_size

    def pipe_close(self, end: Pipe, timeout: float | None) -> None:
        """Hand over, and leave."""
        end.close(timeout)
