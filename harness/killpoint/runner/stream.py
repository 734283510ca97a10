"""A steady stream: a role sends or receives messages at a pace, and keeps none of them itself.

The memory measured afterwards must be the target's. So the objects are few and built beforehand, no
message has a line in the record, and the loop keeps only a count. At its end garbage is collected,
and the allocator returns the pages of free memory: else memory that the target keeps of each
message would for long fill pages that had been touched before.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from killpoint.runner import payload
from killpoint.targets.protocol import UnsupportedByTarget

if TYPE_CHECKING:
    from killpoint import scenario as script
    from killpoint.runner.role import Role

_OBJECTS = 4
"""Number of different objects that are sent in turn."""
_TOLD_EVERY = 0.5
"""Seconds between two lines of the record: a role that writes none for long is taken for stuck."""
_QUIET, _QUIET_WITHIN = 0.01, 0.3
"""Seconds between two looks at whether the process rests, and the most that is waited for it."""
_AT_REST = 0.05
"""Part of a processor that a process takes at most that rests."""
_PR_SET_THP_DISABLE = 41
_M_ARENA_MAX = -8
_EACH_SIZE = 1 << 17
"""Bytes of small objects of each size that fill the interpreter's free blocks."""
_LARGEST = 2 << 20
"""Bytes of the largest of them: they take the pools that are free, in two arenas."""
_OVERHEAD = 33


class Stream:
    """Paced sends and receives of one role."""

    def __init__(self, role: Role, word: Callable[[Exception], str]) -> None:
        """``word``: returns the target's outcome for an exception."""
        self._role = role
        self._word = word
        self._libc: Any = None
        self._ballast: list[bytes] = []

    def send(self, step: script.Send, first: int) -> str:
        """Send so many messages; return ``stopped`` if a call raised."""
        role, target, timeout = self._role, self._role.target, step.timeout
        for message in step.messages:
            objects = [
                payload.build(message, role.seed, first + turn, message.size)
                for turn in range(_OBJECTS)
            ]

            def send(nth: int, objects: list[object] = objects) -> None:
                target.send(role.end, objects[nth % _OBJECTS], timeout)

            if not self._run("sent", message.repeat, step.pace or 0.0, send):
                return "stopped"
        return "ok"

    def receive(self, step: script.Receive) -> str:
        """Receive so many messages; return ``stopped`` if a call raised."""
        role, target, timeout = self._role, self._role.target, step.timeout

        def receive(_nth: int) -> None:
            target.receive(role.end, timeout)

        taken = self._run("got", step.count, step.pace or 0.0, receive)
        return "ok" if taken else "stopped"

    def _run(self, kind: str, count: int, pace: float, act: Callable[[int], None]) -> bool:
        """Call at each due time, or at once if that has passed; return False if one raised."""
        self._prepare()
        between = 1 / pace if pace else 0.0
        began = told = time.monotonic()
        for nth in range(count):
            now = time.monotonic()
            if now < began + nth * between:
                time.sleep(began + nth * between - now)
            elif now > told + _TOLD_EVERY:
                told = now
                self._role.log.write("streaming", of=kind, count=nth)
            try:
                act(nth)
            except UnsupportedByTarget:
                raise
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
                self._role.log.write(kind, outcome=self._word(raised), error=error)
                return False
        self._give_back()
        self._role.log.write("streamed", of=kind, count=count)
        return True

    def _prepare(self) -> None:
        """Make sure that memory kept from now on takes pages of its own, which are counted.

        A huge page comes whole with its first byte, and the interpreter never returns the memory of
        small objects that are gone: both would hide later growth. A thread that begins beside
        others may have an arena of its own, of whose end the allocator returns nothing: it would
        look like growth, although no more arenas come. Garbage is searched only among objects made
        from now on.
        """
        if self._libc is None:
            self._libc = ctypes.CDLL(None)
            self._libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
            with contextlib.suppress(AttributeError):  # another C library than glibc
                self._libc.mallopt(_M_ARENA_MAX, 1)
            gc.collect()
            gc.freeze()
            for size in range(48, 513, 16):
                room = _EACH_SIZE + (_LARGEST if size == 512 else 0)
                self._ballast += [bytes(size - _OVERHEAD) for _ in range(room // size)]

    def _await_quiet(self) -> None:
        """Wait until the target's own threads have freed what the last messages held."""
        end, before = time.monotonic() + _QUIET_WITHIN, time.process_time()
        while time.monotonic() < end:
            time.sleep(_QUIET)
            now = time.process_time()
            if now - before < _AT_REST * _QUIET:
                return
            before = now

    def _give_back(self) -> None:
        self._await_quiet()
        gc.collect()
        with contextlib.suppress(AttributeError):  # another C library than glibc
            self._libc.malloc_trim(0)
