"""A reader's half of a ring: wait for a message, copy it, mark it read (SPEC R1 to R6, R9)."""

from collections.abc import Callable

from .layout import CHUNK_SHIFT, NUMBER, WRITER_SLEEPS, Layout, chunk_views
from .memory import Fence, SharedWords, restart_fence
from .waiting import WaitPoint, WaitStrategy

_Slot = tuple[int, int, int]
"""Offsets of `written` and of the own flag, index of the number (8-byte words); see writer.py."""


class RingReader:
    """One reader. `number` is that of the next message; the slot follows from it.

    The slot carries its message's number, so that after an exception around the one store that
    gives it back this side can tell "not given back" from "given back and since reused".
    """

    def __init__(
        self,
        layout: Layout,
        rank: int,
        cells: SharedWords,
        memory: memoryview,
        fence: Fence,
        waiting: WaitStrategy,
    ) -> None:
        self.number = 0
        self.wait_point: WaitPoint
        self.wake_writer: Callable[[], None] = lambda: None
        self._cells, self._wait = cells, waiting.wait
        self._fence = fence
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self._numbers = memory.cast("Q")
        self._slots = [_slot(layout, rank, k) for k in range(layout.max_chunks)]
        self._count = layout.max_chunks
        self._chunks = chunk_views(layout, memory)
        self._own = 0  # the own flag of the slot claimed last
        self._releasing = -1  # the message this side last began to give back

    def claim(self, timeout: float | None) -> memoryview | None:
        """Return the chunk of the next message once it is there; None at the deadline."""
        number = self.number
        if self._releasing == number:
            self.recover()
            number = self.number
        slot = self._slots[number % self._count]
        written, own, index = slot
        self._own = own
        cells, there = self._cells, 0
        if not cells[own]:  # `_is_there`, written out for the sake of speed
            if not self._fence_in(False):
                restart_fence(self._fence)
            there = cells[written]
            if not there:
                self._fence_out()
        if not there and not self._wait(lambda: self._is_there(slot), self.wait_point, timeout):
            return None
        self._fence_out()
        return self._chunks[self._numbers[index] >> CHUNK_SHIFT]

    def release_slot(self) -> None:
        """Mark the claimed slot as read; nothing may look into its chunk afterwards."""
        number, cells = self.number, self._cells
        fence_in, fence_out = self._fence_in, self._fence_out
        self._releasing = number
        if not fence_in(False):
            restart_fence(self._fence)
        try:
            cells[self._own] = 1
            fence_out()
            self.number = number + 1
            if cells[WRITER_SLEEPS]:
                cells[WRITER_SLEEPS] = 0  # clear, then wake, as in writer.py
                self.wake_writer()
        except BaseException:
            self.wake_writer()  # given back perhaps: a sleeping writer must look (Q8, R9)
            raise

    def recover(self) -> None:
        """Count the message, if it was marked as read, after an exception inside `done`."""
        number = self.number
        if self._releasing != number:
            return
        written, own, index = self._slots[number % len(self._slots)]
        there = not self._cells[own] and self._cells[written]
        if not there or self._numbers[index] & NUMBER != number:
            self.number = number + 1

    def unread_chunks(self) -> list[memoryview]:
        """Return the chunks of the messages that are there to read, oldest first."""
        first, found = self.number, list[memoryview]()
        for number in range(first, first + len(self._slots)):
            slot = self._slots[number % len(self._slots)]
            if not self._is_there(slot):
                break
            self._fence_out()
            found.append(self._chunks[self._numbers[slot[2]] >> CHUNK_SHIFT])
        return found

    def release(self) -> None:
        """Drop every view of the memory."""
        self._numbers.release()
        for chunk in self._chunks:
            chunk.release()

    def _is_there(self, slot: _Slot) -> bool:
        """Return whether the message is there; then the fence is begun, for the caller to end."""
        written, own, _ = slot
        cells = self._cells
        if cells[own]:
            return False
        if not self._fence_in(False):
            restart_fence(self._fence)
        if cells[written]:
            return True
        self._fence_out()
        return False


def _slot(layout: Layout, rank: int, k: int) -> _Slot:
    return layout.written_at(k), layout.read_at(k, rank), layout.number_at(k) // 8
