"""Sequential consistency: one step at a time, seen by all at once (Lamport 1979)."""

from __future__ import annotations

from killpoint.simulation.memory.model import Model


class Sequential(Model):
    """Sequentially consistent memory. A failure here is due to the order of steps alone."""

    title = "sequentially consistent memory"

    def load(self, at: int, size: int) -> bytes:
        """Return the bytes that were stored last."""
        self._access(at, at + size, False)
        content = bytes(self.data[at : at + size])
        self._saw(content)
        if self._recording:
            self.world.note(f"reads {self.shown(at, content)}")
        return content

    def byte(self, at: int) -> int:
        """Return one byte, as ``load``."""
        if self._recording:
            return self.load(at, 1)[0]
        self._access(at, at + 1, False)
        value = self.data[at]
        self._saw(value)
        return value

    def store(self, at: int, content: bytes) -> None:
        """Store bytes, visible to all tasks at once."""
        self._access(at, at + len(content), True)
        self.data[at : at + len(content)] = content
        self._stored()
        self._saw(None)
        if self._recording:
            self.world.note(f"stores {self.shown(at, content)}")
