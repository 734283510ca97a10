"""The reference's KV-transfer pipe as capability ``pipe``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from killpoint.targets.protocol import Outcome, UnsupportedByTarget
from killpoint.targets.refengine.faulty_transport import ForgedBlocks
from killpoint.targets.shapes import PipeShape
from refengine.pipe import (
    BlocksFailed,
    MetadataRefused,
    Pipe,
    PipeClosed,
    PipeSettings,
    SendFailed,
    TensorRefused,
    TensorsLost,
    TransferFailed,
)
from refengine.pipe.blocks import BlockPipe
from refengine.pipe.protocol import DTYPE_CODES, MAX_DIMS, Kind, sealed

OUTCOMES: tuple[tuple[type[BaseException], Outcome], ...] = (
    (PipeClosed, "closed"),
    (TensorsLost, "lost"),
    (MetadataRefused, "refused"),
    (TensorRefused, "refused"),
    (SendFailed, "failed"),
    (TransferFailed, "failed"),
    (BlocksFailed, "failed"),
)
_OPENING = 300.0  # the pipe's own default


class PipeOfRefengine:
    """The part of the adapter that senders and receivers need."""

    def pipe_make(
        self,
        rank: int,
        shape: PipeShape,
        host: str,
        port: int,
        secret: bytes,
        timeout: float | None,
    ) -> Pipe:
        """Make one rank's end."""
        transport = cast("Any", shape.transport or "auto")
        settings = PipeSettings(buffer_bytes=shape.buffer_bytes, transport=transport)
        end = Pipe(
            host,
            port,
            rank,
            shape.size,
            key=secret,
            device=shape.device,
            settings=settings,
            timeout=_OPENING if timeout is None else timeout,
        )
        _secrets[end] = secret
        return end

    def pipe_secrets(self, end: Pipe) -> list[bytes]:
        """Return the key, and those of its two links."""
        sender, receiver = end._ends.sender, end._ends.receiver  # pyright: ignore[reportPrivateUsage] # the adapter looks inside
        sessions = [each._link.session for each in (sender, receiver)]  # pyright: ignore[reportPrivateUsage] # likewise
        return [_secrets[end], *sessions]

    def pipe_send(self, end: Pipe, tensor: Any | None, timeout: float | None) -> None:
        """Send to the next rank."""
        end.send_tensor(tensor, timeout)

    def pipe_recv(self, end: Pipe, timeout: float | None) -> Any:
        """Receive from the previous rank."""
        return end.recv_tensor(timeout)

    def pipe_buffered(self, end: Pipe) -> int:
        """Return the bytes not yet sent."""
        return end.buffer_size

    def pipe_close(self, end: Pipe, timeout: float | None) -> None:
        """Hand over what is left, and close."""
        blocks = _blocks.pop(end, None)
        if blocks is not None:
            blocks.close(timeout)
        end.close(timeout)

    def pipe_forge(self, end: Pipe, lie: str) -> None:
        """Send a header that is sealed as it ought to be, and lies."""
        if lie not in _LIES:
            raise UnsupportedByTarget(f"no header can lie about {lie!r}")
        sender = end._ends.sender  # pyright: ignore[reportPrivateUsage] # the adapter looks inside
        sender.send(0, lambda: _Forgery(lie), None)

    def blocks_send(self, end: Pipe, request: str, blocks: Sequence[Any], lease: float) -> None:
        """Send blocks until they are taken, or their lease ends."""
        _blocks_of(end).send_kv(request, blocks, lease=lease)

    def blocks_recv(self, end: Pipe, request: str, timeout: float | None) -> list[Any]:
        """Receive all blocks of a request."""
        return _blocks_of(end).recv_kv(request, timeout=timeout)

    def blocks_forge(self, end: Pipe, how: str) -> None:
        """Put a forger between the blocks and their pipe."""
        _blocks_of(end)._pipe = ForgedBlocks(end, how)  # pyright: ignore[reportPrivateUsage] # the adapter looks inside


_secrets: WeakKeyDictionary[Pipe, bytes] = WeakKeyDictionary()
_blocks: WeakKeyDictionary[Pipe, BlockPipe] = WeakKeyDictionary()


def _blocks_of(end: Pipe) -> BlockPipe:
    found = _blocks.get(end)
    if found is None:
        found = _blocks[end] = BlockPipe(end)
    return found


_FLOAT32, _FLOAT64 = DTYPE_CODES["float32"], DTYPE_CODES["float64"]
_LIES: dict[str, tuple[int, tuple[int, ...], int]] = {
    "dtype": (255, (16,), 64),
    "negative": (_FLOAT32, (4, -4), 64),
    "dimensions": (_FLOAT32, (1,) * MAX_DIMS, 4),
    "overflow": (_FLOAT64, (1 << 40, 1 << 40), 64),
    "huge": (_FLOAT64, (1 << 50,), 1 << 53),
    "mismatch": (_FLOAT32, (1024,), 4096),
}
"""Type, sizes and bytes in a header that lies."""


class _Forgery:
    """A snapshot whose header lies; 64 bytes follow."""

    def __init__(self, lie: str) -> None:
        self._lie = lie
        self._number = 0

    def header(self, number: int) -> Any:
        """Return itself: it packs what a true header would not."""
        self._number = number
        return self

    def pack(self, key: bytes) -> bytes:
        """Return the sealed header."""
        code, sizes, nbytes = _LIES[self._lie]
        dims = len(sizes) + (self._lie == "dimensions")
        what = int(Kind.TENSOR), 0, code, dims, self._number, nbytes, 64
        return sealed(key, what, sizes, b"")

    def follows(self) -> memoryview:
        """Return the payload: fewer bytes than some of the headers say."""
        return memoryview(bytes(64))

    def beside(self) -> bool:
        """Return False."""
        return False

    def free(self) -> None:
        """Do nothing: nothing is held."""
