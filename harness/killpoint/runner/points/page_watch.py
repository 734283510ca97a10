"""The runner's half of a page point: it releases stores, page by page, up to the one meant."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from killpoint.points import pages
from killpoint.points.pages import PAGE, Segment
from killpoint.runner.protocol import Guarded

Place = tuple[str, int]
"""Page, by its segment's name and its number there."""


class PageWatch:
    """One operation of one role under write protection; ``order``: the pages stored to so far."""

    def __init__(self, fd: int, role: str, pid: int, packet: Guarded, until: int | None) -> None:
        """``until``: number of pages stored to before the operation is held; None: no limit."""
        self.id = packet.id
        self.role = role
        self.order: dict[Place, None] = {}
        self._fd = fd
        self._pid = pid
        self._segments = packet.segments
        self._until = until
        self._held = 0
        self._before = self._contents() if until is not None else []

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return self._fd

    def serve(self) -> str:
        """Release pending stores; return the place where the operation is held, or empty."""
        for address in pages.faults(self._fd):
            place = self._place(address)
            if place in self.order:
                pages.allow(self._fd, address)  # it waits again after a signal
            elif len(self.order) == self._until:
                self._held = address
                return f"page {self._until}: page {place[1]} of {place[0]}"
            else:
                self.order[place] = None
                pages.allow(self._fd, address)
        return ""

    def let_go(self) -> None:
        """End the hold."""
        self._until = None
        pages.allow(self._fd, self._held)

    def inspect(self) -> dict[str, int]:
        """Return the numbers of pages stored to, changed, and changed too early."""
        changed: set[Place] = set()
        for segment, before, now in zip(
            self._segments, self._before, self._contents(), strict=True
        ):
            differs = (before.reshape(-1, PAGE) != now.reshape(-1, PAGE)).any(axis=1)
            changed |= {(segment.name, int(page)) for page in np.flatnonzero(differs)}
        early = changed - set(self.order)
        return {"stored": len(self.order), "changed": len(changed), "early": len(early)}

    def close(self) -> None:
        """Close the descriptor, which lifts any remaining protection."""
        os.close(self._fd)

    def _place(self, address: int) -> Place:
        for segment in self._segments:
            if segment.start <= address < segment.start + segment.length:
                return segment.name, segment.page(address)
        return "?", address // PAGE

    def _contents(self) -> list[np.ndarray[tuple[int], np.dtype[np.uint8]]]:
        with Path(f"/proc/{self._pid}/mem").open("rb", buffering=0) as memory:
            return [_read(memory.fileno(), segment) for segment in self._segments]


def _read(fd: int, segment: Segment) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    data = os.pread(fd, segment.length, segment.start)
    return np.frombuffer(data, np.uint8)
