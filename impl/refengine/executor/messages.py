"""Messages of a pool's queues; and the number of a message that cannot be decoded.

A request is `(number, method, args, kwargs, only)`; `only` is the one rank that replies, or None.
A reply is `(number, True, result)` or `(number, False, (reason, traceback))`.
"""

import io
import pickle
from collections.abc import Callable
from typing import Any

from ..base import serialization

Request = tuple[int, str | bytes, tuple[Any, ...], dict[str, Any], int | None]
Reply = tuple[int, bool, Any]


class _Placeholder:
    """Stand-in for every class and function that a pickle names; no operation on it fails."""

    def __new__(cls, *_: Any, **__: Any) -> "_Placeholder":
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __setstate__(self, state: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, item: Any) -> None: ...

    def extend(self, items: Any) -> None: ...

    def add(self, item: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> "_Placeholder":
        return self

    def __hash__(self) -> int:
        return id(self)


class _PartialUnpickler(pickle.Unpickler):
    """Calls nothing that the message names: only its own numbers, strings and tuples are real."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return _Placeholder

    def persistent_load(self, pid: Any) -> Any:
        return _Placeholder()


def partial_decode(main: bytes | memoryview) -> tuple[Any, ...] | None:
    """Decode a request or reply, with stand-ins for what cannot be; None if it is neither."""
    known: list[Callable[..., Any]] = [_Placeholder for _ in serialization.BUILDERS]
    try:
        buffers = iter(lambda: known.pop() if known else b"", None)
        found = _PartialUnpickler(io.BytesIO(main), buffers=buffers).load()
    except Exception:
        return None
    if isinstance(found, tuple) and found and isinstance(found[0], int):
        return found  # pyright: ignore[reportUnknownVariableType]  # of anything at all
    return None
