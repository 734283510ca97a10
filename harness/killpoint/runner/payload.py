"""Messages of a workload: each carries its number and checksum, so that it can be identified whole.

A message is the tuple ``(seq, crc, body)``. Bodies are made from (seed, seq, kind, size) alone, so
a scenario replays with the same bytes. Where torch is not installed arrays stand for tensors.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, cast

import numpy as np

from killpoint.extras import installed
from killpoint.scenario import Message

_DTYPES = (*"?bBhHiIlLqQefdFD", "S6", "M8[s]", ">i4", ">f8", ">u2", "<f4")
_DIGITS = 16
"""Length of a digest."""
_TYPES_EACH = 4
"""Number of types of the arrays in a message of ``arrays``; the next message has the next ones."""


class Undecodable(Exception):
    """Raised while a message is being decoded, on purpose."""


class Unencodable(Exception):
    """Raised while a message is being encoded, on purpose."""


class _FailsOnArrival:
    def __init__(self, seq: int, ballast: bytes) -> None:
        self.seq = seq
        self.ballast = ballast

    def __reduce__(self) -> Any:
        return _explode, (self.seq, self.ballast)


def _explode(seq: int, _ballast: bytes) -> NoReturn:
    raise Undecodable(f"message {seq} cannot be decoded, on purpose")


class _FailsOnLeaving:
    def __reduce__(self) -> Any:
        raise Unencodable("this message cannot be encoded, on purpose")


def pattern(seed: int, seq: int, size: int, part: int = 0) -> bytearray:
    """Return ``size`` bytes in which every 8-byte word differs, also from other messages'."""
    first = (
        1 + seed * 0x9E3779B97F4A7C15 + seq * 0xC2B2AE3D27D4EB4F + part * 0x165667B19E3779F9
    ) % 2**64
    words = np.arange((size + 7) // 8, dtype=np.uint64)
    words *= np.uint64(0x9E3779B97F4A7C15)
    words += np.uint64(first)
    return bytearray(words.tobytes()[:size])


def recognised(data: bytes, seed: int, count: int) -> list[int]:
    """Return those of ``count`` messages of which 16 bytes or more of content are in ``data``."""
    return [seq for seq in range(count) if bytes(pattern(seed, seq, 16)) in data]


def build(message: Message, seed: int, seq: int, size: int) -> Any:
    """Build the object of one message."""
    return build_identified(message, seed, seq, size)[0]


def build_identified(message: Message, seed: int, seq: int, size: int) -> tuple[Any, str]:
    """Return the object of one message, and its digest: its kind if it is not to arrive."""
    if message.kind == "undecodable":
        return (seq, 0, _FailsOnArrival(seq, bytes(pattern(seed, seq, size)))), message.kind
    if message.kind == "unencodable":
        # What fails comes last: by then the rest has been encoded, and must not stay anywhere.
        parts = [_body(Message("nested"), seed, seq, size), _FailsOnLeaving()]
        return (seq, 0, parts), message.kind
    body = _body(message, seed, seq, size)
    of_body = _digest(body)
    obj = (seq, int(of_body[:8], 16), body)
    return obj, _digest_of_message(obj, of_body)


def _body(message: Message, seed: int, seq: int, size: int) -> Any:
    raw = pattern(seed, seq, size)
    if message.kind == "bytes":
        return bytes(raw)
    if message.kind == "array" or (message.kind == "tensor" and not installed("torch")):
        return np.frombuffer(raw, np.uint8)
    if message.kind == "tensor":
        import torch

        return (
            torch.frombuffer(raw, dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)
        )
    if message.kind == "buffers":
        return [
            np.frombuffer(pattern(seed, seq, size, part), np.uint8)
            for part in range(message.buffers)
        ]
    if message.kind == "shapes":
        return [np.frombuffer(raw, np.uint8), *_shapes(9 + seq % 64)]
    if message.kind == "arrays":
        kinds = [_DTYPES[(seq * _TYPES_EACH + i) % len(_DTYPES)] for i in range(_TYPES_EACH)]
        return [np.frombuffer(raw, np.uint8), *_grids(9 + seq % 64, kinds)]
    return {
        "step": seq,
        "requests": [f"request-{seq}-{i}" for i in range(3)],
        "tokens": {"ids": np.frombuffer(raw, np.uint8), "empty": np.zeros((0, 3), np.float32)},
        "flags": (None, True, 1.5, -(2**70), b"\x00", ""),
        "grid": np.arange(12, dtype=np.int32).reshape(3, 4).T,
    }


def _shapes(first: int) -> list[Any]:
    """Return arrays and tensors of every plain type: scalars, grids of any layout, empty ones.

    Their numbers are small, so that one taken for a length is a length that can be had.
    """
    made = _grids(first, _DTYPES)
    sealed = np.full((2, 2), first)
    sealed.flags.writeable = False
    pairs = np.array([(first, 0.5)], [("id", ">u4"), ("weight", "<f8")])
    made += [sealed, pairs]
    if not installed("torch"):
        return made
    import torch

    grid = torch.arange(first, first + 12).reshape(3, 4)
    return [*made, grid[1, 2], grid, grid.T, grid[:0]]


def _grids(first: int, dtypes: Iterable[str]) -> list[Any]:
    """Return arrays of these types and byte orders, in several layouts each."""
    made: list[Any] = []
    for dtype in dtypes:
        grid = np.arange(first, first + 12, dtype=np.int16).reshape(3, 4).astype(dtype)
        made += [grid[1, 2, ...], grid, grid.T, grid[:, ::2], grid[:0]]
    return made


def sequence_of(obj: Any) -> int:
    """Return the number that a message carries, -1 if it is not one of this workload."""
    if isinstance(obj, tuple):
        parts = cast("tuple[object, ...]", obj)
        if len(parts) == 3 and isinstance(parts[0], int):
            return parts[0]
    return -1


def identify(obj: Any) -> tuple[str, bool]:
    """Return an object's digest, and whether its body matches the checksum that it carries."""
    if sequence_of(obj) < 0:
        return _digest(obj), False
    of_body = _digest(obj[2])
    return _digest_of_message(obj, of_body), obj[1] == int(of_body[:8], 16)


def intact(obj: Any) -> bool:
    """Return whether the body matches the checksum that the message carries."""
    return identify(obj)[1]


def digest(obj: Any) -> str:
    """Return a fingerprint of an object's types, shapes and values, in any byte order."""
    return identify(obj)[0]


def _digest_of_message(obj: Any, of_body: str) -> str:
    """Return a message's digest, of its body's: large data is read once for both."""
    text = f"{type(obj).__name__} {obj[0]!r} {obj[1]!r} {of_body}"
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:_DIGITS]


def _digest(obj: Any) -> str:
    # Of hashlib's the fastest: a check reads gigabytes, and nobody forges them.
    state = hashlib.sha1(usedforsecurity=False)
    _feed(state.update, obj)
    return state.hexdigest()[:_DIGITS]


def checksum(data: bytes | bytearray | memoryview) -> str:
    """Return a fingerprint of plain bytes, for the ring level."""
    return f"{zlib.crc32(data):08x}"


def mutate(obj: Any) -> bool:
    """Overwrite all writable parts in place; return whether there were any."""
    if isinstance(obj, np.ndarray):
        array = cast("np.ndarray[Any, np.dtype[Any]]", obj)
        if array.size and array.flags.writeable:
            if (
                array.flags.c_contiguous
            ):  # at once: a target that has not copied it yet may be about to
                there = array.reshape(-1).view(np.uint8)
                np.bitwise_not(there, out=there)
                return True
            flipped = np.ascontiguousarray(array).reshape(-1).view(np.uint8) ^ 0xFF
            array[...] = flipped.view(array.dtype).reshape(array.shape)
            return True
        return False
    if _is_tensor(obj):
        if obj.numel():
            obj.bitwise_not_()
            return True
        return False
    if isinstance(obj, dict):
        values = cast("dict[object, object]", obj).values()
        return sum(mutate(value) for value in values) > 0
    if isinstance(obj, (list, tuple)):
        return sum(mutate(part) for part in cast("list[object]", obj)) > 0
    return False


def _is_tensor(obj: Any) -> bool:
    return type(obj).__module__.split(".")[0] == "torch" and hasattr(obj, "numel")


def _feed(update: Callable[[Any], object], obj: Any) -> None:
    """Update a hash with an object's type and shape, then with its content."""
    name = type(obj).__name__
    if isinstance(obj, (bytes, bytearray, memoryview)):
        update(f"{name}{len(cast('bytes', obj))}".encode())
        update(obj)
    elif isinstance(obj, np.ndarray):
        array = cast("np.ndarray[Any, np.dtype[Any]]", obj)
        if not array.dtype.isnative:  # numpy itself pickles some of them in the machine's order
            array = array.astype(array.dtype.newbyteorder("="))
        update(f"{name}{_text(array.dtype)}{array.shape}".encode())
        if array.size:
            update(np.ascontiguousarray(array).view(np.uint8).data)
    elif _is_tensor(obj):
        update(f"{name}{obj.dtype}{tuple(obj.shape)}".encode())
        if obj.numel():
            update(obj.contiguous().numpy().data)
    elif isinstance(obj, dict):
        update(name.encode())
        for key, value in cast("dict[object, object]", obj).items():
            _feed(update, key)
            _feed(update, value)
    elif isinstance(obj, (list, tuple)):
        parts = cast("list[object]", obj)
        update(f"{name}{len(parts)}".encode())
        for part in parts:
            _feed(update, part)
    else:
        update(f"{name}{obj!r}".encode())


@functools.cache
def _text(dtype: np.dtype[Any]) -> str:
    """Return numpy's text of a type, which takes it longer than a hash of a small array."""
    return str(dtype)
