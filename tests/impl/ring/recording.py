"""A ring in plain memory whose every store, load and fence is written down."""

from typing import Any

from refengine.ring.memory import Segment
from refengine.ring.ring import Ring


class PlainMemory:
    """`Memory` without names: one bytearray that every end shares."""

    def __init__(self) -> None:
        self.buf = memoryview(bytearray())
        self.name = "plain"

    def create(self, nbytes: int) -> Segment:
        self.buf = memoryview(bytearray(nbytes))
        return self

    def attach(self, name: str, nbytes: int) -> Segment:
        return self

    def unlink(self) -> None: ...

    def close(self) -> None: ...


class Recorder:
    """Makes cells and fences for parties that append (party, what, offset, value) to one log."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, int, Any]] = []

    def cells(self, party: str) -> Any:
        log = self.log

        def make(memory: memoryview) -> Any:
            class Cells:
                def __getitem__(self, at: Any) -> Any:
                    if not isinstance(at, slice):
                        log.append((party, "load", at, memory[at]))
                    return memory[at]

                def __setitem__(self, at: Any, value: Any) -> None:
                    memory[at] = value
                    if isinstance(at, slice):
                        for i, v in zip(range(at.start, at.stop), value, strict=True):
                            log.append((party, "store", i, v))
                    else:
                        log.append((party, "store", at, value))

            return Cells()

        return make

    def fence(self, party: str) -> Any:
        log = self.log

        class Fence:
            def acquire(self, blocking: bool = True) -> bool:
                log.append((party, "fence", 0, 0))
                return True

            def release(self) -> None:
                log.append((party, "fence", 0, 0))

        return Fence()


def recorded_ring(
    n_reader: int, chunk: int = 64, chunks: int = 2
) -> tuple[Recorder, Any, list[Any]]:
    """(recorder, writer's ring, readers' rings)."""
    memory, recorder = PlainMemory(), Recorder()
    writer = Ring.create(
        n_reader, chunk, chunks, memory=memory, cells=recorder.cells("w"), fence=recorder.fence("w")
    )
    readers = [
        Ring.attach(
            writer.handle(),
            i,
            memory=memory,
            cells=recorder.cells(f"r{i}"),
            fence=recorder.fence(f"r{i}"),
        )
        for i in range(n_reader)
    ]
    return recorder, writer, readers
