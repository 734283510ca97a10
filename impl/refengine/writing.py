"""The writer's half of a ring: claim a slot, fill it, publish it (SPEC R1 to R5, R9)."""

from collections.abc import Callable
from dataclasses import dataclass

from .cells import Cells
from .fence import Fence
from .layout import LEFT, READERS_SLEEP, Layout
from .waiting.strategy import Post, Waiting


@dataclass(frozen=True)
class _Slot:
    written: int
    first: int
    end: int
    number: int  # index among 8-byte words
    chunk: memoryview


class WriteSide:
    """One writer. `number` is that of the next message; the slot follows from it.

    An exception between any two steps leaves the message published or not: `claim` finds out
    which (`written` was stored 0 by this very attempt, and nobody else stores 1), so no index
    can run ahead of, or behind, the flags.
    """

    def __init__(
        self, layout: Layout, cells: Cells, memory: memoryview, fence: Fence, waiting: Waiting
    ) -> None:
        self.number = 0
        self.post: Post
        self.ring_readers: Callable[[], None] = lambda: None
        self._cells, self._wait = cells, waiting.wait
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self._numbers = memory.cast("Q")
        self._slots = [_slot(layout, memory, k) for k in range(layout.max_chunks)]
        self._ones, self._zeros = b"\1" * layout.n_reader, bytes(layout.n_reader)
        self._states = [layout.reader_state(i) for i in range(layout.n_reader)]
        self._dead: set[int] = set()
        self._slot = self._slots[0]  # the one claimed last
        self._opened = -1  # the message whose slot this side emptied last

    def claim(self, timeout: float | None) -> memoryview | None:
        """The chunk of the next slot once it is free; None at the deadline. Changes nothing."""
        number = self.number
        if self._opened == number:
            number = self.settle()
        slot = self._slots[number % len(self._slots)]
        cells = self._cells
        self._slot = slot
        if (
            cells[slot.written]
            and cells[slot.first : slot.end] != self._ones
            and not self._wait(lambda: self._is_free(slot), self.post, timeout)
        ):
            return None
        return slot.chunk

    def settle(self) -> int:
        """After an exception inside `publish`: count the message if it was published."""
        number = self.number
        slot = self._slots[number % len(self._slots)]
        if self._opened == number and self._cells[slot.written]:
            self.number = number = number + 1
        return number

    def open(self) -> None:
        """Empty the claimed slot: from here on its chunk may be filled."""
        self._cells[self._slot.written] = 0
        self._opened = self.number
        self._fence_in(False)
        self._fence_out()

    def publish(self) -> None:
        """Hand the filled slot to the readers."""
        number, cells, slot = self.number, self._cells, self._slot
        self._numbers[slot.number] = number
        cells[slot.first : slot.end] = self._zeros
        self._fence_in(False)
        self._fence_out()
        try:
            cells[slot.written] = 1
            self._fence_in(False)
            self._fence_out()
            self.number = number + 1
            if cells[READERS_SLEEP]:
                cells[READERS_SLEEP] = 0  # clear, then ring: a later sleeper sets it again
                self.ring_readers()
        except BaseException:
            self.ring_readers()  # published perhaps: whoever sleeps must look (Q8, R9)
            raise

    def forget(self, rank: int) -> None:
        """From now on reader `rank` counts as having read everything (it is dead)."""
        self._dead.add(rank)

    def release(self) -> None:
        """Drop every view of the memory."""
        self._numbers.release()
        for slot in self._slots:
            slot.chunk.release()

    def _is_free(self, slot: _Slot) -> bool:
        cells = self._cells
        if not cells[slot.written] or cells[slot.first : slot.end] == self._ones:
            return True
        return all(
            cells[slot.first + i] or i in self._dead or cells[state] == LEFT
            for i, state in enumerate(self._states)
        )


def _slot(layout: Layout, memory: memoryview, k: int) -> _Slot:
    first, at = layout.read_at(k, 0), layout.chunk_at(k)
    chunk = memory[at : at + layout.max_chunk_bytes]
    return _Slot(
        layout.written_at(k), first, first + layout.n_reader, layout.number_at(k) // 8, chunk
    )
