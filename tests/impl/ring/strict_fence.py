"""A fence that notes what really fenced, and takes no wait."""

from typing import Any

from refengine.ring.ring import Ring

from .recording import PlainMemory, Recorder


class StrictFence:
    """Logs the halves that are locked instructions: an `acquire` that fails is none."""

    def __init__(self, log: list[tuple[str, str, int, Any]], party: str) -> None:
        self.log, self.party, self.locked = log, party, False

    def acquire(self, blocking: bool = True) -> bool:
        assert not blocking, "nobody waits for a fence"
        if self.locked:
            return False
        self.locked = True
        self.log.append((self.party, "fence", 0, 0))
        return True

    def release(self) -> None:
        assert self.locked, "released twice"
        self.locked = False
        self.log.append((self.party, "fence", 0, 0))


class Pair:
    """A ring in plain memory: the ends, their fences, and the log of all they store and load."""

    def __init__(self, n_reader: int = 1, chunk: int = 64, chunks: int = 3) -> None:
        memory, recorder = PlainMemory(), Recorder()
        self.log = recorder.log
        self.fences = [StrictFence(self.log, who) for who in ["w", *map(str, range(n_reader))]]
        self.writer = Ring.create(
            n_reader,
            chunk,
            chunks,
            memory=memory,
            cells=recorder.cells("w"),
            fence=self.fences[0],
        )
        self.readers = [
            Ring.attach(
                self.writer.handle(),
                rank,
                memory=memory,
                cells=recorder.cells(str(rank)),
                fence=self.fences[1 + rank],
            )
            for rank in range(n_reader)
        ]
        self.reader = self.readers[0]

    def lock(self) -> None:
        """What an exception between the halves of a pair leaves behind."""
        for fence in self.fences:
            fence.locked = True

    def locked(self) -> list[bool]:
        return [fence.locked for fence in self.fences]
