"""Descriptors of the writer in the hands of its readers, over a socket of its own."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

_MOST = 8


class HandOver:
    """The writer's: hands each reader that comes what is meant for its rank, then is gone."""

    def __init__(self, for_rank: Sequence[Sequence[int]]) -> None:
        self._for_rank = for_rank
        self._folder = Path(tempfile.mkdtemp(prefix="hand-over-"))
        self.path = str(self._folder / "s")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(len(for_rank))

    def serve(self, timeout: float | None) -> None:
        """Wait for every reader.

        Raises:
            TimeoutError: one did not come.
        """
        for _ in self._for_rank:
            self._listener.settimeout(timeout)
            visitor, _ = self._listener.accept()
            with visitor:
                visitor.settimeout(timeout)
                rank = int.from_bytes(visitor.recv(4), "big")
                socket.send_fds(visitor, [b"."], self._for_rank[rank])
        self.close()

    def close(self) -> None:
        """Remove the names."""
        self._listener.close()
        Path(self.path).unlink(missing_ok=True)
        if self._folder.exists():
            self._folder.rmdir()


def receive_descriptors(path: str, rank: int, timeout: float | None) -> list[int]:
    """Return the file descriptors that the writer holds for this rank.

    Raises:
        OSError: the writer is not there, or did not answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.settimeout(timeout)
        visitor.connect(path)
        visitor.sendall(rank.to_bytes(4, "big"))
        _, descriptors, _, _ = socket.recv_fds(visitor, 1, _MOST)
        return descriptors
