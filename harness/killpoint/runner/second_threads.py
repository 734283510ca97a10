"""Calls that a role makes beside its first thread, each in a thread of its own."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

from killpoint.runner.driver import without_evidence

_LOOKS, _BETWEEN = 4, 0.01
"""Number of looks at which a thread must be seen asleep to count as waiting, and seconds between
them."""
_INSIDE_WITHIN = 10.0


class SecondThreads:
    """The second threads of a role: begun one by one, and waited for together."""

    def __init__(self) -> None:
        """Begin with none."""
        self._begun: list[threading.Thread] = []
        self._count = 0
        self._unable: list[Exception] = []
        self._here = threading.local()

    def begin(self, act: Callable[[], str]) -> str:
        """Act in a new thread; return once it waits inside a call, or is done.

        Returns:
            The outcome of the order: ``restless`` if the thread never came to wait.
        """
        self._count += 1
        thread = threading.Thread(target=self._run, args=(act, self._count), daemon=True)
        self._begun.append(thread)
        thread.start()
        return "ok" if _waits(thread) else "restless"

    def rejoin(self) -> str:
        """Wait for all of them.

        Raises:
            UnsupportedByTarget: one of them could not do what was asked.
            NoEvidence: one of them failed through no fault of the target's.
        """
        for thread in self._begun:
            thread.join()
        self._begun.clear()
        if self._unable:
            raise self._unable[0]
        return "ok"

    def number(self) -> int:
        """Return the number of the thread that asks, from 1; 0 in the first thread."""
        return getattr(self._here, "number", 0)

    def _run(self, act: Callable[[], str], number: int) -> None:
        self._here.number = number
        try:
            act()
        except Exception as error:
            unable = without_evidence(error)
            if unable is None:
                raise
            self._unable.append(unable)


def _waits(thread: threading.Thread) -> bool:
    """Return whether a thread has come to wait inside its call, or is done."""
    seen, end = 0, time.monotonic() + _INSIDE_WITHIN
    while thread.is_alive() and seen < _LOOKS:
        if time.monotonic() > end:
            return False
        state = ""
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
            state = stat.rpartition(")")[2].split()[0]
        seen = seen + 1 if state == "S" else 0
        select.select([], [], [], _BETWEEN)
    return True
