"""All-reduce through memory that the ranks of a stage share: no port, so no stranger (SPEC S3).

The file has no name and is passed from parent to worker, as are the wake-ups (eventfds), one a
rank. A rank writes its part into a slot of its own, publishes that under the next number, wakes
the others, and adds up all slots once every rank has published that number. Slots come in pairs: a
rank that writes one has seen every rank publish a later number than the one last read from it.
"""

import contextlib
import importlib
import mmap
import os
import select
import time
from collections.abc import Sequence
from typing import Any

from ...ring.memory import Fence, lock_fence, restart_fence

SLOT_BYTES = 1 << 20
"""Size of a part; a larger tensor goes in several."""
_LINE = 8
"""Words of one rank: the number of its last part, its pid, and the bytes in both slots."""
_NUMBER, _PID, _SIZES = 0, 1, 2
_ABSENT = 0.25
"""Seconds between two looks for a rank that has not started yet."""
_TOLD_WITHIN = 1.0
"""Seconds in which the pool ends a worker that waits for a dead rank; then the sum fails."""


class SharedSum:
    """One rank's end. All ranks of the stage sum tensors of the same size in the same order.

    Args:
        path: path of the file, the same for all `world_size` ranks of the pool.
        ranks: ranks of this stage, as the pool counts them, neighbours in ascending order.
        me: place of this rank among them.
        wakeups: eventfds in the order of `ranks`; they stay the caller's.
    """

    def __init__(
        self, path: str, world_size: int, ranks: range, me: int, wakeups: Sequence[int]
    ) -> None:
        if len(wakeups) != len(ranks):
            raise ValueError(f"{len(ranks)} ranks need a wake-up each, not {len(wakeups)} in all")
        self._ranks, self._me, self._wakeups = ranks, me, list(wakeups)
        self._torch: Any = importlib.import_module("torch")
        # The area of words is as large for every stage, so that no two of them overlap.
        slots = -(-world_size * _LINE * 8 // mmap.PAGESIZE) * mmap.PAGESIZE
        whole = _mapped(path, _first_of(slots, world_size))
        self._words = memoryview(whole).cast("Q")
        frombuffer, octets = self._torch.frombuffer, self._torch.uint8
        self._slots = [
            [
                frombuffer(whole, dtype=octets, count=SLOT_BYTES, offset=offset)
                for offset in (first, first + SLOT_BYTES)
            ]
            for first in (_first_of(slots, rank) for rank in ranks)
        ]
        self._fence: Fence = lock_fence()
        self._number = 0
        self._peers: dict[int, int] = {}
        """Pidfds of the other ranks that have started, by place."""
        self._put(_PID, os.getpid())

    def reduce(self, tensor: Any) -> Any:
        """Sum a CPU tensor of numbers over the ranks, in place.

        Parts are added in the order of the ranks, floating ones as
        float64, so that every rank has the same bits.

        Raises:
            RuntimeError: a rank has died, or sums a tensor of another size.
        """
        flat = tensor.reshape(-1)
        step = max(1, SLOT_BYTES // tensor.element_size())
        for begin in range(0, max(1, len(flat)), step):
            self._reduce(flat[begin : begin + step])
        if flat.data_ptr() != tensor.data_ptr():
            tensor.copy_(flat.view_as(tensor))
        return tensor

    def close(self) -> None:
        """Close the pidfds; the memory goes with the last process that maps it."""
        while self._peers:
            os.close(self._peers.popitem()[1])
        self._slots.clear()

    def _reduce(self, part: Any) -> None:
        self._number += 1
        which, size = self._number % 2, part.numel() * part.element_size()
        mine = self._slots[self._me][which][:size].view(part.dtype)
        mine.copy_(part)
        self._put(_SIZES + which, size)
        self._fenced()
        self._put(_NUMBER, self._number)
        for place, wakeup in enumerate(self._wakeups):
            if place != self._me:
                os.eventfd_write(wakeup, 1)
        self._wait()
        self._fenced()
        torch = self._torch
        wide = torch.float64 if part.is_floating_point() else part.dtype
        total = torch.zeros(part.numel(), dtype=wide)
        for place, slots in enumerate(self._slots):
            if self._get(place, _SIZES + which) != size:
                raise RuntimeError(
                    f"rank {self._ranks[place]} sums {self._get(place, _SIZES + which)} bytes"
                    f" where rank {self._ranks[self._me]} sums {size}"
                )
            total += slots[which][:size].view(part.dtype)
        part.copy_(total)

    def _wait(self) -> None:
        """Wait until every rank has published the number; RuntimeError if one has died instead."""
        wakeup, poller = self._wakeups[self._me], select.poll()
        poller.register(wakeup, select.POLLIN)
        watched: dict[int, int] = {}
        dead: dict[int, float] = {}
        while behind := self._behind():
            for place in behind:
                if place not in watched and place not in dead and self._knows(place):
                    watched[place] = self._peers[place]
                    poller.register(watched[place], select.POLLIN)
            overdue = [place for place, since in dead.items() if place in behind and _over(since)]
            if overdue:
                raise RuntimeError(f"rank {self._ranks[overdue[0]]} of the stage has died in a sum")
            everybody = not dead and all(place in watched for place in behind)
            found = dict(poller.poll(None if everybody else _ABSENT * 1000))
            if wakeup in found:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(wakeup)
            for place, pidfd in list(watched.items()):
                if pidfd in found:
                    poller.unregister(watched.pop(place))
                    dead[place] = time.monotonic()

    def _behind(self) -> list[int]:
        self._fenced()
        everybody = range(len(self._ranks))
        return [place for place in everybody if self._get(place, _NUMBER) < self._number]

    def _knows(self, place: int) -> bool:
        """Return whether the rank has started; then its end can be waited for."""
        pid = self._get(place, _PID)
        if place not in self._peers and pid:
            try:
                self._peers[place] = os.pidfd_open(pid)
            except ProcessLookupError:
                raise RuntimeError(f"rank {self._ranks[place]} of the stage is gone") from None
        return place in self._peers

    def _fenced(self) -> None:
        if not self._fence.acquire(False):
            restart_fence(self._fence)
        self._fence.release()

    def _put(self, word: int, value: int) -> None:
        self._words[self._ranks[self._me] * _LINE + word] = value

    def _get(self, place: int, word: int) -> int:
        return self._words[self._ranks[place] * _LINE + word]


def _first_of(slots: int, rank: int) -> int:
    """Return the offset where a rank's slots begin, and those of the ranks before it end."""
    return slots + rank * 2 * SLOT_BYTES


def _mapped(path: str, nbytes: int) -> mmap.mmap:
    """Map the file, of at least this size; pages that no rank touches take no memory."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size < nbytes:
            os.truncate(fd, nbytes)
        return mmap.mmap(fd, nbytes)
    finally:
        os.close(fd)


def _over(since: float) -> bool:
    return time.monotonic() - since >= _TOLD_WITHIN
