"""A broadcast queue as its specification has it: who may send, who has something to read."""

from __future__ import annotations


class QueueModel:
    """Counts of what was sent and what each reader took; no content."""

    def __init__(self, readers: int, slots: int) -> None:
        """An empty queue with so many slots."""
        self._slots = slots
        self._sent = 0
        self._taken = [0] * readers

    def send(self) -> bool:
        """Whether a send succeeds now; if so it has happened."""
        if self._sent - min(self._taken) >= self._slots:
            return False
        self._sent += 1
        return True

    def receive(self, reader: int) -> bool:
        """Whether a receive succeeds now; if so it has happened."""
        if self._taken[reader] >= self._sent:
            return False
        self._taken[reader] += 1
        return True

    def behind(self) -> list[int]:
        """How many messages each reader still has to read."""
        return [self._sent - taken for taken in self._taken]
