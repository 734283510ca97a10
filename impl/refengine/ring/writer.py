"""The writer's half of a ring: claim a slot, fill it, publish it (SPEC R1 to R5, R9)."""

from collections.abc import Callable

from ..base.serialization import Buffer, write_single
from .layout import CHUNK_SHIFT, LEFT, READERS_SLEEP, Layout, chunk_views
from .memory import Fence, SharedWords, restart_fence
from .waiting import WaitPoint, WaitStrategy

_Slot = tuple[int, slice, int]
"""Offsets of `written` and of the readers' flags, index of the number (in 8-byte words).

Plain tuples: to take one apart costs a fraction of what a named one's parts do.
"""
_CACHED_DISTANCE = 3  # messages after which a large chunk is still likely to be in a cache
_REUSE_BYTES = 4 << 20
"""Bytes of chunks that smaller messages go round: more than a core's own cache, and little enough
for one that the cores share. A cache line that a reader's own cache holds is slow to write."""
LARGE = 768 << 10
"""Bytes from which on a message and its copy leave a core's own cache by themselves."""


class RingWriter:
    """One writer. `number` is that of the next message; the slot follows from it.

    An exception between any two steps leaves the message published or not: `claim` finds out
    which (`written` was stored 0 by this very attempt, and no other party stores 1), so no index
    can run ahead of, or behind, the flags.

    Every slot has a chunk that holds its message, and a free slot may swap its chunk with another
    free slot's. So large messages pass through the few chunks that the caches hold, while the
    slots go round the whole ring.
    """

    def __init__(
        self,
        layout: Layout,
        cells: SharedWords,
        memory: memoryview,
        fence: Fence,
        waiting: WaitStrategy,
    ) -> None:
        self.number = 0
        self.wait_point: WaitPoint
        self.wake_readers: Callable[[], None] = lambda: None
        self._cells, self._wait = cells, waiting.wait
        self._fence = fence
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self._numbers = memory.cast("Q")
        self._slots = [_slot(layout, k) for k in range(layout.max_chunks)]
        self._count = layout.max_chunks
        self._chunks = chunk_views(layout, memory)
        self._chunk_of_slot = tuple(range(layout.max_chunks))
        self._ones, self._zeros = b"\1" * layout.n_reader, bytes(layout.n_reader)
        self._states = [layout.reader_state(i) for i in range(layout.n_reader)]
        self._dead: set[int] = set()
        self._slot = self._slots[0]  # the one claimed last
        self._chunk = 0  # its chunk
        self._opened = -1  # the message whose slot this side emptied last

    def claim(self, timeout: float | None, back: int = 0) -> memoryview | None:
        """Return the chunk of the next slot once it is free; None at the deadline.

        Publishes nothing. `back`: number of messages since the use of the chunk that it takes over
        (see `reuse_distance`); 0: it takes the slot's own.
        """
        number = self.number
        if self._opened == number:
            number = self.recover()
        slot = self._slots[number % len(self._slots)]
        cells = self._cells
        self._slot = slot
        if (
            cells[slot[0]]
            and cells[slot[1]] != self._ones
            and not self._wait(lambda: self._is_free(slot), self.wait_point, timeout)
        ):
            return None
        if back:
            self._swap_in_hot_chunk(number, back)
        self._chunk = chunk_index = self._chunk_of_slot[number % len(self._slots)]
        return self._chunks[chunk_index]

    def send(self, main: Buffer, timeout: float | None) -> bool:
        """Send a message of one buffer that fits; return False at the deadline, without effect.

        `claim`, `begin_write`, `write_message` and `publish` in one frame: calls and attributes are
        most of the cost of a small message.
        """
        number = self.number
        if self._opened == number:
            number = self.recover()
        turn = number % self._count
        slot = self._slots[turn]
        written, readers, index = slot
        cells = self._cells
        fence_in, fence_out = self._fence_in, self._fence_out
        if (
            cells[written]
            and cells[readers] != self._ones
            and not self._wait(lambda: self._is_free(slot), self.wait_point, timeout)
        ):
            return False
        chunk_index = self._chunk_of_slot[turn]
        cells[written] = 0
        self._opened = number
        if not fence_in(False):
            restart_fence(self._fence)
        write_single(self._chunks[chunk_index], main)
        self._numbers[index] = chunk_index << CHUNK_SHIFT | number
        cells[readers] = self._zeros
        fence_out()
        try:
            cells[written] = 1
            fence_in(False)
            fence_out()
            self.number = number + 1
            if cells[READERS_SLEEP]:
                self._wake()
        except BaseException:
            self.wake_readers()  # as in `publish`
            raise
        return True

    def recover(self) -> int:
        """Count the message, after an exception inside `publish`, if it was published."""
        number = self.number
        written, _, _ = self._slots[number % len(self._slots)]
        if self._opened == number and self._cells[written]:
            self.number = number = number + 1
        return number

    def begin_write(self) -> None:
        """Empty the claimed slot: from here on its chunk may be filled."""
        self._cells[self._slot[0]] = 0
        self._opened = self.number
        if not self._fence_in(False):
            restart_fence(self._fence)

    def publish(self) -> None:
        """Hand the filled slot to the readers; its first fence ends the pair that `open` began."""
        number, cells = self.number, self._cells
        fence_in, fence_out = self._fence_in, self._fence_out
        written, readers, index = self._slot
        self._numbers[index] = self._chunk << CHUNK_SHIFT | number
        cells[readers] = self._zeros
        fence_out()
        try:
            cells[written] = 1
            fence_in(False)
            fence_out()
            self.number = number + 1
            if cells[READERS_SLEEP]:
                self._wake()
        except BaseException:
            self.wake_readers()  # published perhaps: whoever sleeps must look (Q8, R9)
            raise

    def _wake(self) -> None:
        self._cells[READERS_SLEEP] = 0  # clear, then ring: a later sleeper sets it again
        self.wake_readers()

    def all_read(self) -> bool:
        """Return whether every reader has read every message before the one claimed."""
        number = self.number
        _, readers, _ = self._slots[(number - 1) % self._count]
        return not number or self._cells[readers] == self._ones

    def forget(self, rank: int) -> None:
        """From now on reader `rank` counts as having read everything (it is dead)."""
        self._dead.add(rank)

    def release(self) -> None:
        """Drop every view of the memory."""
        self._numbers.release()
        for chunk in self._chunks:
            chunk.release()

    def _swap_in_hot_chunk(self, number: int, back: int) -> None:
        """Swap the claimed slot's chunk with that of a message before it that all have read."""
        slots, cells = self._slots, self._cells
        count = len(slots)
        for each in range(back, min(max(_CACHED_DISTANCE, back), count - 1, number) + 1):
            other = (number - each) % count
            if cells[slots[other][1]] == self._ones:
                swapped, own = list(self._chunk_of_slot), number % count
                swapped[own], swapped[other] = swapped[other], swapped[own]
                self._chunk_of_slot = tuple(swapped)  # one store: whole or not at all (R9)
                return

    def _is_free(self, slot: _Slot) -> bool:
        written, readers, _ = slot
        cells = self._cells
        if not cells[written] or cells[readers] == self._ones:
            return True
        first = readers.start
        return all(
            cells[first + i] or i in self._dead or cells[state] == LEFT
            for i, state in enumerate(self._states)
        )


def reuse_distance(nbytes: int) -> int:
    """Return the number of messages of that size after which a chunk is best used again."""
    return 1 if nbytes >= LARGE else _REUSE_BYTES // nbytes


def _slot(layout: Layout, k: int) -> _Slot:
    first = layout.read_at(k, 0)
    readers = slice(first, first + layout.n_reader)
    return layout.written_at(k), readers, layout.number_at(k) // 8
