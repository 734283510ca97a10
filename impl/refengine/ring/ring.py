"""The ring buffer: one writer, N readers, M slots in memory they share (SPEC 1).

The flags of slot k are at `ring.layout.written_at(k)` and `ring.layout.read_at(k, i)`.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from ..base.cleanup import ReleaseStack
from ..base.event_waiter import Fault
from ..errors import DeadlinePassed, QueueClosed, RankRefused, WrongRole
from .layout import LEFT, READERS_SLEEP, WRITER_SLEEPS, WRITER_STATE, Layout
from .memory import (
    Fence,
    MakeSharedWords,
    Memory,
    Segment,
    SharedSegment,
    SharedWords,
    lock_fence,
    raw_words,
)
from .reader import RingReader
from .waiting import PollingWaiter, SlotWaiter, Waiter, WaitStrategy, Yielding
from .writer import RingWriter


@dataclass(frozen=True)
class RingHandle:
    """Address of a ring, for a reader to attach: sizes and the segment's name."""

    n_reader: int
    max_chunk_bytes: int
    max_chunks: int
    name: str


class Ring:
    """One party's end. The writer makes it by `create`, a reader by `attach`.

    Used alone it has no wake-ups and no liveness: a wait ends by a message, its deadline, or the
    other side's `close`. A queue brings both by `wait_with`.
    """

    def __init__(
        self,
        layout: Layout,
        segment: Segment,
        rank: int | None,
        waiting: WaitStrategy | None,
        cells: MakeSharedWords,
        fence: Fence | None,
    ) -> None:
        self.layout, self.segment, self.rank = layout, segment, rank
        memory, fence, waiting = segment.buf, fence or lock_fence(), waiting or Yielding()
        self.cells: SharedWords = cells(memory)
        self._fence = fence
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self._closed = False
        if rank is None:
            self._writer = RingWriter(layout, self.cells, memory, fence, waiting)
            self._reader = None
        else:
            self._writer = None
            self._reader = RingReader(layout, rank, self.cells, memory, fence, waiting)
        self.wait_with(PollingWaiter(self.left))

    @classmethod
    def create(
        cls,
        n_reader: int,
        max_chunk_bytes: int,
        max_chunks: int,
        *,
        memory: Memory | type[SharedSegment] = SharedSegment,
        waiting: WaitStrategy | None = None,
        cells: MakeSharedWords = raw_words,
        fence: Fence | None = None,
    ) -> "Ring":
        """The writer's end of a new ring; MemoryShort if there is no room (SPEC Q15)."""
        layout = Layout(n_reader, max_chunk_bytes, max_chunks)
        undo = ReleaseStack()
        try:
            segment = undo.acquire(_remove, memory.create, layout.total)
            layout.stamp(segment.buf)
            return cls(layout, segment, None, waiting, cells, fence)
        except BaseException:
            undo.close()
            raise

    @classmethod
    def attach(
        cls,
        handle: RingHandle,
        reader_rank: int,
        *,
        memory: Memory | type[SharedSegment] = SharedSegment,
        waiting: WaitStrategy | None = None,
        cells: MakeSharedWords = raw_words,
        fence: Fence | None = None,
    ) -> "Ring":
        """Reader `reader_rank`'s end; AttachFailed if the segment is not what the handle says."""
        layout = Layout(handle.n_reader, handle.max_chunk_bytes, handle.max_chunks)
        if not 0 <= reader_rank < layout.n_reader:
            raise RankRefused(reader_rank, f"ranks are 0 … {layout.n_reader - 1}")
        undo = ReleaseStack()
        try:
            segment = undo.acquire(_unmap, memory.attach, handle.name, layout.total)
            layout.verify(segment.buf, handle.name)
            return cls(layout, segment, reader_rank, waiting, cells, fence)
        except BaseException:
            undo.close()
            raise

    def handle(self) -> RingHandle:
        """Return the handle for `attach` in another process."""
        sizes = self.layout
        return RingHandle(
            sizes.n_reader, sizes.max_chunk_bytes, sizes.max_chunks, self.segment.name
        )

    @property
    def writer(self) -> RingWriter:
        """The writing half; WrongRole on a reader."""
        if self._writer is None:
            raise WrongRole("writing", "reader")
        return self._writer

    @property
    def reader(self) -> RingReader:
        """The reading half; WrongRole on the writer."""
        if self._reader is None:
            raise WrongRole("reading", "writer")
        return self._reader

    @contextmanager
    def acquire_write(self, timeout: float | None = None) -> Generator[memoryview]:
        """The next chunk to fill; published on a clean exit, not at all on an exception."""
        chunk = self.writer.claim(timeout)
        if chunk is None:
            raise DeadlinePassed("a free slot", timeout or 0)
        self.writer.begin_write()
        yield chunk
        self.writer.publish()

    @contextmanager
    def acquire_read(self, timeout: float | None = None) -> Generator[memoryview]:
        """The next message's chunk; consumed on exit, also when the body raises (SPEC R7)."""
        chunk = self.reader.claim(timeout)
        if chunk is None:
            raise DeadlinePassed("a message", timeout or 0)
        try:
            yield chunk
        finally:
            self.reader.release_slot()

    def wait_with(self, waiter: Waiter) -> None:
        """Wait with this waiter from now on."""
        if self._writer is not None:
            self._writer.wait_point = SlotWaiter(
                self.cells, WRITER_SLEEPS, self._fence, waiter, "a free slot"
            )
        if self._reader is not None:
            self._reader.wait_point = SlotWaiter(
                self.cells, READERS_SLEEP, self._fence, waiter, "a message"
            )

    def left(self) -> Fault | None:
        """Return the fault "the other side closed cleanly", if it did."""
        if self._reader is not None:
            return _writer_closed if self.writer_left() else None
        gone = all(self.reader_left(i) for i in range(self.layout.n_reader))
        return _readers_closed if gone else None

    def writer_left(self) -> bool:
        """Return whether the writer closed cleanly."""
        return self.cells[WRITER_STATE] == LEFT

    def reader_left(self, rank: int) -> bool:
        """Return whether reader `rank` closed cleanly."""
        return self.cells[self.layout.reader_state(rank)] == LEFT

    def say_left(self) -> None:
        """Store, in memory, that this side closes cleanly."""
        at = WRITER_STATE if self.rank is None else self.layout.reader_state(self.rank)
        self._fence_in(False)
        self._fence_out()
        self.cells[at] = LEFT
        self._fence_in(False)
        self._fence_out()

    def close(self) -> None:
        """Store a clean close, drop the memory; the writer also removes the name. Idempotent."""
        if not self._closed:
            self.say_left()
            self.drop()

    def drop(self) -> None:
        """Drop the memory without storing a clean close."""
        if self._closed:
            return
        self._closed = True
        for side in (self._writer, self._reader):
            if side is not None:
                side.release()
        self.segment.unlink()
        self.segment.close()


def _remove(segment: Segment) -> None:
    segment.unlink()
    segment.close()


def _unmap(segment: Segment) -> None:
    segment.close()


def _writer_closed(_: str) -> QueueClosed:
    return QueueClosed("the writer")


def _readers_closed(_: str) -> QueueClosed:
    return QueueClosed("every reader")
