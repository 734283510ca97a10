"""Specification of a broadcast queue: when the writer may send, and when a reader can receive."""

from __future__ import annotations


class QueueModel:
    """Counts of messages sent, and of those that each reader took; no content."""

    def __init__(self, readers: int, slots: int) -> None:
        """Begin as an empty queue with so many slots."""
        self._slots = slots
        self._sent = 0
        self._taken = [0] * readers

    def send(self) -> bool:
        """Send if a slot is free now; return whether it was sent."""
        if self._sent - min(self._taken) >= self._slots:
            return False
        self._sent += 1
        return True

    def receive(self, reader: int) -> bool:
        """Receive if a message is there now; return whether one was taken."""
        if self._taken[reader] >= self._sent:
            return False
        self._taken[reader] += 1
        return True

    def behind(self) -> list[int]:
        """Return the number of messages that each reader still has to read."""
        return [self._sent - taken for taken in self._taken]
