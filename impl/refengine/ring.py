"""The ring buffer: one writer, N readers, M slots in memory they share (SPEC 1).

The flags of slot k are at `ring.layout.written_at(k)` and `ring.layout.read_at(k, i)`.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from .cells import Cells, MakeCells, plain
from .errors import DeadlinePassed, QueueClosed, RankRefused, WrongRole
from .fence import Fence, lock_fence
from .keeping import Undo
from .layout import LEFT, READERS_SLEEP, WRITER_SLEEPS, WRITER_STATE, Layout
from .memory import Memory, Segment, SharedSegment
from .post import NoBell, RingPost, Vigil
from .reading import ReadSide
from .waiting import Waiting, Yielding
from .waiting.strategy import Fault
from .writing import WriteSide


@dataclass(frozen=True)
class RingHandle:
    """What a reader needs to attach: sizes and the segment's name."""

    n_reader: int
    max_chunk_bytes: int
    max_chunks: int
    name: str


class Ring:
    """One party's end. The writer makes it by `create`, a reader by `attach`.

    Used alone it has no bell and no liveness: a wait ends by a message, its deadline, or the
    other side's `close`. A queue brings both by `hear`.
    """

    def __init__(
        self,
        layout: Layout,
        segment: Segment,
        rank: int | None,
        waiting: Waiting | None,
        cells: MakeCells,
        fence: Fence | None,
    ) -> None:
        self.layout, self.segment, self.rank = layout, segment, rank
        memory, fence, waiting = segment.buf, fence or lock_fence(), waiting or Yielding()
        self.cells: Cells = cells(memory)
        self._fence = fence
        self._fence_in, self._fence_out = fence.acquire, fence.release
        self._closed = False
        if rank is None:
            self._writer = WriteSide(layout, self.cells, memory, fence, waiting)
            self._reader = None
        else:
            self._writer = None
            self._reader = ReadSide(layout, rank, self.cells, memory, fence, waiting)
        self.hear(NoBell(self.left))

    @classmethod
    def create(
        cls,
        n_reader: int,
        max_chunk_bytes: int,
        max_chunks: int,
        *,
        memory: Memory | type[SharedSegment] = SharedSegment,
        waiting: Waiting | None = None,
        cells: MakeCells = plain,
        fence: Fence | None = None,
    ) -> "Ring":
        """The writer's end of a new ring; MemoryShort if there is no room (SPEC Q15)."""
        layout = Layout(n_reader, max_chunk_bytes, max_chunks)
        undo = Undo()
        try:
            segment = undo.made(_remove, memory.create, layout.total)
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
        waiting: Waiting | None = None,
        cells: MakeCells = plain,
        fence: Fence | None = None,
    ) -> "Ring":
        """Reader `reader_rank`'s end; AttachFailed if the segment is not what the handle says."""
        layout = Layout(handle.n_reader, handle.max_chunk_bytes, handle.max_chunks)
        if not 0 <= reader_rank < layout.n_reader:
            raise RankRefused(reader_rank, f"ranks are 0 … {layout.n_reader - 1}")
        undo = Undo()
        try:
            segment = undo.made(_unmap, memory.attach, handle.name, layout.total)
            layout.verify(segment.buf, handle.name)
            return cls(layout, segment, reader_rank, waiting, cells, fence)
        except BaseException:
            undo.close()
            raise

    def handle(self) -> RingHandle:
        """For `attach` in another process."""
        sizes = self.layout
        return RingHandle(
            sizes.n_reader, sizes.max_chunk_bytes, sizes.max_chunks, self.segment.name
        )

    @property
    def writer(self) -> WriteSide:
        """The writing half; WrongRole on a reader."""
        if self._writer is None:
            raise WrongRole("writing", "reader")
        return self._writer

    @property
    def reader(self) -> ReadSide:
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
        self.writer.open()
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
            self.reader.done()

    def hear(self, vigil: Vigil) -> None:
        """Wait with this vigil from now on."""
        if self._writer is not None:
            self._writer.post = RingPost(
                self.cells, WRITER_SLEEPS, self._fence, vigil, "a free slot"
            )
        if self._reader is not None:
            self._reader.post = RingPost(self.cells, READERS_SLEEP, self._fence, vigil, "a message")

    def left(self) -> Fault | None:
        """The fault "the other side closed cleanly", if it did."""
        if self._reader is not None:
            return _writer_closed if self.writer_left() else None
        gone = all(self.reader_left(i) for i in range(self.layout.n_reader))
        return _readers_closed if gone else None

    def writer_left(self) -> bool:
        """Whether the writer closed cleanly."""
        return self.cells[WRITER_STATE] == LEFT

    def reader_left(self, rank: int) -> bool:
        """Whether reader `rank` closed cleanly."""
        return self.cells[self.layout.reader_state(rank)] == LEFT

    def say_left(self) -> None:
        """Tell the other side, in memory, that this one closes cleanly."""
        at = WRITER_STATE if self.rank is None else self.layout.reader_state(self.rank)
        self._fence_in(False)
        self._fence_out()
        self.cells[at] = LEFT
        self._fence_in(False)
        self._fence_out()

    def close(self) -> None:
        """Say so, drop the memory; the writer's also removes the name. Idempotent."""
        if not self._closed:
            self.say_left()
            self.drop()

    def drop(self) -> None:
        """Let go of the memory without a word."""
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
