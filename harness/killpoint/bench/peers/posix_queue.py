"""POSIX message queues, through ctypes: one for each reader. Small messages only."""

from __future__ import annotations

import ctypes
import os
import pickle
from pathlib import Path
from typing import Any

from killpoint.errors import CannotWork
from killpoint.targets.shapes import QueueShape

_LIMITS = Path("/proc/sys/fs/mqueue")
_ROOM_FOR_PICKLE = 512
"""Bytes that pickle adds to an array in a dict, at most."""


class _Attributes(ctypes.Structure):
    _fields_ = [  # ctypes reads it as it stands
        ("flags", ctypes.c_long),
        ("messages", ctypes.c_long),
        ("bytes", ctypes.c_long),
        ("now", ctypes.c_long),
        ("reserved", ctypes.c_long * 4),
    ]


def unavailable() -> str | None:
    """Return why this machine has no POSIX queues; None if it has them."""
    try:
        library = _library()
        queue = _open(library, _name(0), 1, 64)
    except (OSError, AttributeError, CannotWork) as error:
        return str(error)
    library.mq_close(queue)
    library.mq_unlink(_name(0))
    return None


def largest() -> int:
    """The largest payload that this system's queues take."""
    try:
        return int((_LIMITS / "msgsize_max").read_text()) - _ROOM_FOR_PICKLE
    except (OSError, ValueError):
        return 8192 - _ROOM_FOR_PICKLE


class PosixPeer:
    """The kernel's queue of messages: no connection, priorities unused."""

    def load(self) -> None:
        """Find the C library."""
        _library()

    def make(self, shape: QueueShape) -> _Writer:
        """The queues."""
        return _Writer(shape.readers)

    def handle(self, end: _Writer) -> list[bytes]:
        """Return the names of the queues."""
        return end.names

    def attach(self, handle: list[bytes], rank: int) -> _Reader:
        """Open the queue of this rank."""
        return _Reader(handle[rank])

    def ready(self, end: _Writer | _Reader, timeout: float | None) -> None:
        """Return at once: a reader is there once it has opened its queue."""

    def send(self, end: _Writer, obj: Any, timeout: float | None) -> None:
        """Send to each reader."""
        del timeout
        end.enqueue(obj)

    def receive(self, end: _Reader, timeout: float | None) -> Any:
        """The next."""
        del timeout
        return end.dequeue()

    def close(self, end: _Writer | _Reader) -> None:
        """Close; the writer's end removes the names."""
        end.close()


class _Writer:
    def __init__(self, readers: int) -> None:
        self._library = _library()
        self.names = [_name(number) for number in range(1, readers + 1)]
        limit = largest() + _ROOM_FOR_PICKLE
        self._queues = [_open(self._library, name, 10, limit) for name in self.names]

    def enqueue(self, obj: Any) -> None:
        data = pickle.dumps(obj, 5)
        for queue in self._queues:
            if self._library.mq_send(queue, data, len(data), 0):
                raise _error("mq_send")

    def close(self) -> None:
        for name, queue in zip(self.names, self._queues, strict=True):
            self._library.mq_close(queue)
            self._library.mq_unlink(name)


class _Reader:
    def __init__(self, name: bytes) -> None:
        self._library = _library()
        limit = largest() + _ROOM_FOR_PICKLE
        self._queue = _open(self._library, name, 0, 0)
        self._library.mq_unlink(name)  # one reader a queue: nothing is left, whoever dies
        self._room = ctypes.create_string_buffer(limit)
        self._view = memoryview(self._room)

    def dequeue(self) -> Any:
        found = self._library.mq_receive(self._queue, self._room, len(self._view), None)
        if found < 0:
            raise _error("mq_receive")
        return pickle.loads(self._view[:found])

    def close(self) -> None:
        self._library.mq_close(self._queue)


_names = 0


def _name(number: int) -> bytes:
    global _names  # several queues in a process
    _names += 1
    return f"/killpoint-{os.getpid()}-{_names}-{number}".encode()


def _library() -> ctypes.CDLL:
    for name in ("librt.so.1", None):
        try:
            library = ctypes.CDLL(name, use_errno=True)
            library.mq_receive.restype = ctypes.c_ssize_t
        except (OSError, AttributeError):
            continue
        library.mq_receive.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_void_p,
        )
        library.mq_send.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_uint,
        )
        return library
    raise CannotWork("the C library has no message queues")


def _open(library: ctypes.CDLL, name: bytes, messages: int, size: int) -> int:
    flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if messages else 0)
    wanted = _Attributes(messages=messages, bytes=size)
    queue = library.mq_open(name, flags, 0o600, ctypes.byref(wanted))
    if queue < 0:
        raise _error("mq_open")
    return queue


def _error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
