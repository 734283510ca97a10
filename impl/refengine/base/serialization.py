"""Objects to buffers and back: pickle 5 with large buffers out of band (SPEC 3, Q1, Q3, Q4).

Inline, a slot holds `[0][count, 2][length, 4][bytes]…`, big-endian, the pickle first: that is
`total + 1` bytes, so a message of `total == max_chunk_bytes - 1` fills its chunk exactly. An
overflow payload has the same form; its slot holds only a marker.

Where the chunk has room left the pickle counts some bytes more, which pickle ignores, so that the
first large buffer is aligned. Else it may lie a few bytes behind its source, modulo a page, which
some processors copy ten times slower (`rep movsb`, below 1 MiB).

Reducers turn arrays and tensors into pickle buffers cheaply; numpy and torch are not imported
unless the caller has. `Pickler` and `loads` leave out the names that most pickles would spell.
"""

import copyreg
import io
import pickle
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pickle import PickleBuffer
from types import SimpleNamespace
from typing import Any

from ..errors import EncodingLimit, Unencodable
from .buffer_pool import BufferPool
from .cache_line import LINE

_SMALL = 4096
Reduced = tuple[Any, ...] | str
"""Result of a reducer (pickle's own protocol)."""


def install(table: dict[type, Any], used: list[object]) -> None:
    """Add reducers for numpy arrays and torch tensors if the caller has imported them.

    Each appends to `used` when the pickle that it makes calls one of `BUILDERS`.
    """
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and hasattr(numpy, "ndarray"):
        table[numpy.ndarray] = _array_reducer(numpy, used.append)
    if torch is not None and hasattr(torch, "Tensor"):
        table[torch.Tensor] = _tensor_reducer(torch, used.append)


def _array_reducer(numpy: Any, note: Callable[[object], None]) -> Any:
    """Return a reducer that takes a third of numpy's time for plain C-ordered writable arrays."""
    codes = {numpy.dtype(c): c for c in "?bBhHiIlLqQefdFD"}
    build = build_array

    def reduce(array: Any) -> Reduced:
        code = codes.get(array.dtype)
        if code and array.flags.carray:
            note(None)
            # A small one stays in the pickle anyway: not worth asking the encoder each time.
            # By way of `bytes`: an integer without dimensions would be taken for a length.
            data = bytearray(array.tobytes()) if array.nbytes < _SMALL else PickleBuffer(array)
            return build, (array.shape, code, data)
        return array.__reduce_ex__(5)

    return reduce


def _tensor_reducer(torch: Any, note: Callable[[object], None]) -> Any:
    """Return a reducer: plain dense CPU tensors to one buffer, others to torch's own form."""

    def reduce(tensor: Any) -> Reduced:
        if not _is_plain(torch, tensor):
            return tensor.__reduce_ex__(5)
        note(None)
        # One element is contiguous whatever its stride, which a view as bytes does not accept.
        flat = tensor.detach().contiguous().as_strided((tensor.numel(),), (1,))
        data = PickleBuffer(flat.view(torch.uint8).numpy())
        dtype = str(tensor.dtype).removeprefix("torch.")
        return rebuild_tensor, (data, dtype, tuple(tensor.shape), tensor.requires_grad)

    return reduce


def _is_plain(torch: Any, tensor: Any) -> bool:
    return (
        tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.is_leaf
        and not tensor.__dict__
    )


def rebuild_tensor(data: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    """Return the tensor again, over `data`'s own memory."""
    import torch

    kind = getattr(torch, dtype)
    if len(data):
        tensor = torch.frombuffer(data, dtype=torch.uint8).view(kind).reshape(shape)
    else:
        tensor = torch.empty(shape, dtype=kind)
    return tensor.requires_grad_() if requires_grad else tensor


def build_array(*_: Any) -> Any:
    """Stand for `numpy.ndarray` at the sender: no other pickle can mean this function."""
    raise NotImplementedError


BUILDERS = build_array, rebuild_tensor
"""Functions that reduced pickles call, in the order of `builders`."""


@cache
def builders() -> tuple[Any, ...]:
    """Return the functions that `BUILDERS` stand for at the reader."""
    import numpy

    return numpy.ndarray, rebuild_tensor


_PROTO = b"\x80\x05"
_TAKE = b"\x97"  # NEXT_BUFFER
_KEEP = b"\x94"  # MEMOIZE
_DROP = b"0"  # POP
_WITHOUT = _PROTO + b"N" + _KEEP + _KEEP + _DROP
_WITH_BUILDERS = _PROTO + _TAKE + _KEEP + _TAKE + _KEEP + _DROP + _DROP
_FIRST, _SECOND = _TAKE[0], _KEEP[0]

_loads = pickle.loads
Buffer = bytes | memoryview


class Pickler:
    """One kept pickler. Large buffers come out of band, as the caller's own memory.

    To look `numpy.ndarray` up by its name, at both ends, costs as much as all the rest of a small
    array's message. So the pickler's memo begins with what the reducers call, and each pickle with
    a prelude that fills the same places of the reader's memo: from the buffers that the reader
    passes in (pickle takes any object for one), or, for a message that needs none of it, with None.
    """

    def __init__(self, out_of_band_from: int) -> None:
        self._least = out_of_band_from
        self._used: list[object] = []
        self._large: list[Buffer] = []
        self._parts: list[bytes] = []
        table: dict[type, Any] = dict(copyreg.dispatch_table)
        install(table, self._used)
        sink: Any = SimpleNamespace(write=self._parts.append)  # cheaper than a file to rewind
        self._pickler: Any = pickle.Pickler(sink, 5, buffer_callback=self._keep)
        self._pickler.dispatch_table = table
        first: Any = pickle.Pickler(io.BytesIO())
        first.memo = {id(b): (place, b) for place, b in enumerate(BUILDERS)}
        self._memo = self._pickler.memo = first.memo
        self._dump = self._pickler.dump

    def dumps(self, obj: object) -> list[Buffer]:
        """Return the pickle, then the buffers. After an exception this pickler is spoiled."""
        parts = self._parts
        self._dump(obj)
        self._pickler.memo = self._memo  # now, so that nothing of the object is kept
        prelude = _WITHOUT
        if self._used:
            self._used.clear()
            prelude = _WITH_BUILDERS
        if len(parts) == 1:
            main = prelude + parts.pop()
        else:
            parts[0] = prelude + parts[0]
            main = b"".join(parts)
            parts.clear()
        if self._large:
            buffers: list[Buffer] = [main, *self._large]
            self._large.clear()
            return buffers
        return [main]

    def _keep(self, buffer: pickle.PickleBuffer) -> bool:
        """Return True to leave the buffer in the pickle."""
        raw = buffer.raw()
        if raw.nbytes < self._least:
            return True
        self._large.append(raw)
        return False


def loads(main: Buffer, buffers: Sequence[Buffer] = ()) -> Any:
    """Return the object; `main` is from `Pickler.dumps`, or any other pickle."""
    if main[3] == _SECOND and main[2] == _FIRST:
        known = builders()
        return _loads(main, buffers=[*known, *buffers] if buffers else known)
    return _loads(main, buffers=buffers) if buffers else _loads(main)


OUT_OF_BAND_FROM = 16 << 10
"""Least bytes of a buffer that is copied straight into the chunk, not by way of the pickle."""
INLINE, OVERFLOW, FRAGMENT = 0, 1, 2
SMALLEST_TOTAL = 6  # plus the pickle: `total_of` for a message without other buffers
SMALLEST_CHUNK = 32

_COUNT = struct.Struct(">BH")
_LENGTH = struct.Struct(">I")
_ONE = struct.Struct(">BHI")
_MARKER = struct.Struct(">BQQ")
_BARE_BYTES = pickle.dumps(pickle.PickleBuffer(b""), 5, buffer_callback=lambda _: False)
"""The pickle of a lone `bytes` that travels out of band: pickle itself would copy it in band."""
_SHORT_BYTES = [b"\x80\x05C" + bytes([n]) for n in range(256)]
_SIMPLE = {bytes, str, int, float, bool, type(None)}

Raw = list[bytes | memoryview]
"""A message's buffers as they arrived, the pickle first."""


@dataclass(frozen=True)
class Limits:
    """Limits of the format; smaller ones make the refusals testable."""

    max_buffers: int = (1 << 16) - 1
    max_buffer_bytes: int = (1 << 32) - 1


def total_of(sizes: Sequence[int]) -> int:
    """Return SPEC 3's `total` for a pickle of sizes[0] and out-of-band buffers of the others."""
    return 2 + sum(sizes) + 4 * len(sizes)


def overflows(total: int, max_chunk_bytes: int) -> bool:
    """Return whether a message of this total goes by the overflow path."""
    return total >= max_chunk_bytes


def check_limits(sizes: Sequence[int], limits: Limits) -> None:
    """Raise EncodingLimit for sizes that the format cannot carry."""
    if len(sizes) > limits.max_buffers:
        raise EncodingLimit("the number of buffers", len(sizes), limits.max_buffers)
    largest = max(sizes)
    if largest > limits.max_buffer_bytes:
        raise EncodingLimit("a buffer's length", largest, limits.max_buffer_bytes)


class Encoder:
    """Pickles with one kept C pickler (a new one per message costs a microsecond more)."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._most_bytes = limits, limits.max_buffer_bytes
        self._modules = 0
        self._fresh()

    def encode(self, obj: object) -> list[Buffer]:
        """Return the pickle, then its out-of-band buffers, which still are the caller's memory."""
        buffers: list[Buffer]
        try:
            if type(obj) not in _SIMPLE:
                if len(sys.modules) != self._modules:
                    self._fresh()  # numpy or torch may be among the new ones
                buffers = self._dumps(obj)
            elif type(obj) is bytes and len(obj) >= OUT_OF_BAND_FROM:
                buffers = [_BARE_BYTES, memoryview(obj)]
            else:
                buffers = [pickle.dumps(obj, 5)]
        except Exception as error:
            self._fresh()
            raise Unencodable(type(obj).__name__) from error
        except BaseException:
            self._fresh()
            raise
        if len(buffers) > 1 or len(buffers[0]) > self._most_bytes:
            check_limits([len(b) for b in buffers], self._limits)
        return buffers

    def _fresh(self) -> None:
        self._modules = len(sys.modules)
        self._dumps = Pickler(OUT_OF_BAND_FROM).dumps


def is_plain_bytes(buffers: Sequence[Buffer]) -> bool:
    """Return whether it is one large `bytes`: a reader makes it from the chunk in one copy."""
    return len(buffers) == 2 and buffers[0] is _BARE_BYTES


def write_message(buffers: Sequence[Buffer], into: memoryview, spare: int = 0) -> None:
    """Write an inline message into a chunk (or an overflow payload into its frame).

    `spare`: bytes left over behind the message; some may be used to align it.
    """
    main = buffers[0]
    if len(buffers) == 1:
        _ONE.pack_into(into, 0, INLINE, 1, len(main))
        into[7 : 7 + len(main)] = main
        return
    _COUNT.pack_into(into, 0, INLINE, len(buffers))
    at = _COUNT.size
    behind = 0
    if spare and buffers[0] is not _BARE_BYTES:  # which is known by its pickle
        behind = -(_ONE.size + len(buffers[0]) + _LENGTH.size) % LINE
        if behind > spare:
            behind = 0
    for buffer in buffers:
        _LENGTH.pack_into(into, at, len(buffer) + behind)
        into[at + 4 : at + 4 + len(buffer)] = buffer
        at += 4 + len(buffer) + behind
        behind = 0


def buffer_header(index: int, count: int, nbytes: int) -> bytes:
    """Return the bytes that `write_message` puts before buffer `index` of `count`."""
    length = _LENGTH.pack(nbytes)
    return length if index else _COUNT.pack(INLINE, count) + length


def write_single(chunk: memoryview, main: Buffer) -> None:
    """Write a message of one buffer, as `write_message` does."""
    size = len(main)
    _ONE.pack_into(chunk, 0, INLINE, 1, size)
    chunk[7 : 7 + size] = main


def read_single(chunk: memoryview) -> bytes | None:
    """Return the pickle of an inline message of one buffer; None for any other message."""
    kind, count, size = _ONE.unpack_from(chunk, 0)
    return chunk[7 : 7 + size].tobytes() if count == 1 and kind == INLINE else None


def encode_short(obj: bytes) -> bytes | None:
    """Return the pickle of short `bytes`, without frame and memo; None for longer ones."""
    return _SHORT_BYTES[len(obj)] + obj + b"." if len(obj) < 256 else None


def read_message(chunk: memoryview, memory: BufferPool | None = None) -> Raw:
    """Copy an inline message out of its chunk; nothing of it aliases the chunk (SPEC R6).

    Out-of-band buffers come in writable `memory` (None: new memory), so that arrays over them are
    writable; the content of a lone `bytes` comes as `bytes`.
    """
    buffers = split_message(chunk)
    return [buffers[0], *(_copied(buffer, memory) for buffer in buffers[1:])]


def split_message(message: memoryview) -> Raw:
    """Return views of an inline message's buffers; only the pickle and lone `bytes` are copied.

    The memory must be the message's own, and writable.
    """
    _, count, length = _ONE.unpack_from(message, 0)
    main = bytes(message[7 : 7 + length])
    buffers: Raw = [main]
    at = 7 + length
    for _ in range(count - 1):
        (length,) = _LENGTH.unpack_from(message, at)
        part = message[at + 4 : at + 4 + length]
        buffers.append(bytes(part) if main == _BARE_BYTES else part)
        at += 4 + length
    return buffers


def _copied(buffer: bytes | memoryview, memory: BufferPool | None) -> bytes | memoryview:
    if isinstance(buffer, bytes):
        return buffer
    if memory is None:
        return memoryview(bytearray(buffer))
    copy = memory.take(len(buffer))
    copy[:] = buffer
    return copy


def write_overflow_marker(into: memoryview, payload_id: int, nbytes: int) -> None:
    """Write an overflow marker into a chunk: the id of the payload to await, and its size."""
    _MARKER.pack_into(into, 0, OVERFLOW, payload_id, nbytes)


def read_overflow_marker(chunk: memoryview) -> tuple[int, int]:
    """Return (payload id, bytes) of the marker in a chunk whose first byte is OVERFLOW."""
    _, payload_id, nbytes = _MARKER.unpack_from(chunk, 0)
    return payload_id, nbytes


def decode(buffers: Raw) -> Any:
    """Return the object of a message's buffers."""
    return loads(buffers[0], buffers[1:])
