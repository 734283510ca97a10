"""The writer's half of a ring: claim a slot, fill it, publish it (SPEC R1 to R5, R9)."""

from collections.abc import Callable

from .cells import Cells
from .encoding import Buffer, put_one
from .fence import Fence, again
from .layout import AREA_SHIFT, LEFT, READERS_SLEEP, Layout, areas
from .waiting.strategy import Post, Waiting

_Slot = tuple[int, slice, int]
"""Where `written` is, the readers' flags, the number (among 8-byte words).

Plain tuples: to take one apart costs a fraction of what a named one's parts do.
"""
_FAR = 3  # how far back an area is still likely to be in a cache, for the largest messages
_TURN = 4 << 20
"""Bytes of areas that smaller messages go round: more than a core's own cache, and little enough
for one that the cores share. A line that a reader's own cache holds is slow to write."""
LARGE = 768 << 10
"""From here on a message and its copy leave a core's own cache by themselves."""


class WriteSide:
    """One writer. `number` is that of the next message; the slot follows from it.

    An exception between any two steps leaves the message published or not: `claim` finds out
    which (`written` was stored 0 by this very attempt, and nobody else stores 1), so no index
    can run ahead of, or behind, the flags.

    A slot's message lies in an area; every slot has one, and a free slot may swap its area with
    another free slot's. So large messages pass through the few areas that the caches hold, while
    the slots go round the whole ring.
    """

    def __init__(
        self, layout: Layout, cells: Cells, memory: memoryview, fence: Fence, waiting: Waiting
    ) -> None:
        self.number = 0
        self.post: Post
        self.ring_readers: Callable[[], None] = lambda: None
        self._cells, self._wait = cells, waiting.wait
        self._fence = fence
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self._numbers = memory.cast("Q")
        self._slots = [_slot(layout, k) for k in range(layout.max_chunks)]
        self._count = layout.max_chunks
        self._areas = areas(layout, memory)
        self._area_of = tuple(range(layout.max_chunks))
        self._ones, self._zeros = b"\1" * layout.n_reader, bytes(layout.n_reader)
        self._states = [layout.reader_state(i) for i in range(layout.n_reader)]
        self._dead: set[int] = set()
        self._slot = self._slots[0]  # the one claimed last
        self._area = 0  # its area
        self._opened = -1  # the message whose slot this side emptied last

    def claim(self, timeout: float | None, back: int = 0) -> memoryview | None:
        """The chunk of the next slot once it is free; None at the deadline. Publishes nothing.

        `back`: how many messages before it the chunk was used that it takes over (see `turn_of`);
        0: it takes the slot's own.
        """
        number = self.number
        if self._opened == number:
            number = self.settle()
        slot = self._slots[number % len(self._slots)]
        cells = self._cells
        self._slot = slot
        if (
            cells[slot[0]]
            and cells[slot[1]] != self._ones
            and not self._wait(lambda: self._is_free(slot), self.post, timeout)
        ):
            return None
        if back:
            self._warm(number, back)
        self._area = area = self._area_of[number % len(self._slots)]
        return self._areas[area]

    def send(self, main: Buffer, timeout: float | None) -> bool:
        """A message of one buffer that fits: False at the deadline, and nothing happened.

        `claim`, `open`, `put` and `publish` in one frame: calls and attributes are what a small
        message costs.
        """
        number = self.number
        if self._opened == number:
            number = self.settle()
        turn = number % self._count
        slot = self._slots[turn]
        written, readers, index = slot
        cells = self._cells
        fence_in, fence_out = self._fence_in, self._fence_out
        if (
            cells[written]
            and cells[readers] != self._ones
            and not self._wait(lambda: self._is_free(slot), self.post, timeout)
        ):
            return False
        area = self._area_of[turn]
        cells[written] = 0
        self._opened = number
        if not fence_in(False):
            again(self._fence)
        put_one(self._areas[area], main)
        self._numbers[index] = area << AREA_SHIFT | number
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
            self.ring_readers()  # as in `publish`
            raise
        return True

    def settle(self) -> int:
        """After an exception inside `publish`: count the message if it was published."""
        number = self.number
        written, _, _ = self._slots[number % len(self._slots)]
        if self._opened == number and self._cells[written]:
            self.number = number = number + 1
        return number

    def open(self) -> None:
        """Empty the claimed slot: from here on its chunk may be filled."""
        self._cells[self._slot[0]] = 0
        self._opened = self.number
        if not self._fence_in(False):
            again(self._fence)

    def publish(self) -> None:
        """Hand the filled slot to the readers; its first fence ends the pair that `open` began."""
        number, cells = self.number, self._cells
        fence_in, fence_out = self._fence_in, self._fence_out
        written, readers, index = self._slot
        self._numbers[index] = self._area << AREA_SHIFT | number
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
            self.ring_readers()  # published perhaps: whoever sleeps must look (Q8, R9)
            raise

    def _wake(self) -> None:
        self._cells[READERS_SLEEP] = 0  # clear, then ring: a later sleeper sets it again
        self.ring_readers()

    def all_read(self) -> bool:
        """Whether every reader has read every message before the one claimed."""
        number = self.number
        _, readers, _ = self._slots[(number - 1) % self._count]
        return not number or self._cells[readers] == self._ones

    def forget(self, rank: int) -> None:
        """From now on reader `rank` counts as having read everything (it is dead)."""
        self._dead.add(rank)

    def release(self) -> None:
        """Drop every view of the memory."""
        self._numbers.release()
        for area in self._areas:
            area.release()

    def _warm(self, number: int, back: int) -> None:
        """Swap the claimed slot's area with that of a message before it that all have read."""
        slots, cells = self._slots, self._cells
        count = len(slots)
        for each in range(back, min(max(_FAR, back), count - 1, number) + 1):
            other = (number - each) % count
            if cells[slots[other][1]] == self._ones:
                swapped, own = list(self._area_of), number % count
                swapped[own], swapped[other] = swapped[other], swapped[own]
                self._area_of = tuple(swapped)  # one store: whole or not at all (R9)
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


def turn_of(nbytes: int) -> int:
    """After how many messages of that many bytes a chunk is best used again."""
    return 1 if nbytes >= LARGE else _TURN // nbytes


def _slot(layout: Layout, k: int) -> _Slot:
    first = layout.read_at(k, 0)
    readers = slice(first, first + layout.n_reader)
    return layout.written_at(k), readers, layout.number_at(k) // 8
