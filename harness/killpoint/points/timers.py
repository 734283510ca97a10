"""Time points: a signal that the kernel sends to its own process, so many seconds from now.

Line and opcode points exist only in interpreted code. A kernel timer strikes wherever the process
is, including native code that holds a lock, and needs neither the interpreter nor a thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Generator

from killpoint.points.refusal import Refused

_SIGEV_SIGNAL = 0
_ROOM = 64
"""Bytes of the kernel's ``struct sigevent``."""


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_char * (_ROOM - 16)),
    )


class _Spec(ctypes.Structure):
    _fields_ = (
        ("interval_seconds", ctypes.c_long),
        ("interval_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


class SignalTimer:
    """A kernel timer of this process; a forked child does not inherit it."""

    def __init__(self, number: int) -> None:
        """``number``: the signal that it sends to its process.

        Raises:
            Refused: the kernel provides no timer.
        """
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "timer_create"):
            self._libc = ctypes.CDLL("librt.so.1", use_errno=True)  # glibc before 2.34
        self._timer = ctypes.c_void_p()
        event = _Event(None, number, _SIGEV_SIGNAL, b"")
        made = ctypes.byref(event), ctypes.byref(self._timer)
        if self._libc.timer_create(time.CLOCK_MONOTONIC, *made):
            raise Refused(f"no timer: error {ctypes.get_errno()}")
        self._off = ctypes.byref(_Spec())
        self.fired = False
        """True if the timer has sent its signal; valid once the block of :meth:`running` has been
        left."""

    @contextlib.contextmanager
    def running(self, after: float) -> Generator[None]:
        """Send the signal in ``after`` seconds, unless the block has been left by then."""
        nanoseconds = max(1, round(after * 1e9))
        on = ctypes.byref(_Spec(0, 0, *divmod(nanoseconds, 1_000_000_000)))
        settime, timer, left = self._libc.timer_settime, self._timer, _Spec()
        settime(timer, 0, on, None)
        try:
            yield
        finally:
            settime(timer, 0, self._off, ctypes.byref(left))
            self.fired = not (left.seconds or left.nanoseconds)

    def close(self) -> None:
        """Delete the timer."""
        self._libc.timer_delete(self._timer)
