"""A stranger at a torch TCP store, which authenticates no client."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

_RANKS, _NUMBERS = 3, 8
_PATIENCE = timedelta(seconds=1)
_TRIED_FOR = 2.0
_AT_ONCE = 8
"""Number of further addresses for which the deadline is extended by as much again, as the machine
is busy then."""


class StoreAttacker:
    """Client without an invitation."""

    def __init__(self, store: Any, port: int) -> None:
        """Use :meth:`among`."""
        self._store = store
        self.port = port
        self._seen: set[tuple[str, bytes]] = set()

    @classmethod
    def among(cls, addresses: Sequence[tuple[str, int]]) -> list[StoreAttacker]:
        """Return a client of each address that answers as such a store does, all asked at once."""
        asked = [(address, _asked(*address)) for address in addresses]
        end = time.monotonic() + _TRIED_FOR * (1 + len(asked) / _AT_ONCE)
        stores = [address for address, child in asked if _answered(child, end)]
        return [cls(_client(*address), address[1]) for address in stores]

    def values(self) -> Iterator[tuple[str, bytes]]:
        """Yield the value of each key that can be listed or guessed, each value once."""
        for key in self._keys():
            value: bytes | None = None
            with contextlib.suppress(Exception):  # gone meanwhile
                if self._store.check([key]):
                    value = self._store.get(key)
            if value is not None and (key, value) not in self._seen:
                self._seen.add((key, value))
                yield key, value

    def set_all(self, value: bytes) -> None:
        """Set the value of each key that can be listed or guessed."""
        for key in self._keys():
            with contextlib.suppress(Exception):  # refused: so much the better
                self._store.set(key, value)

    def _keys(self) -> list[str]:
        found: list[str] = []
        with contextlib.suppress(Exception):  # older stores have no list
            found = [str(key) for key in self._store.list_keys()]
        return list(dict.fromkeys([*found, *_guesses()]))


def _client(host: str, port: int) -> Any:
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] # its public name

    return TCPStore(host, port, is_master=False, timeout=_PATIENCE, wait_for_workers=False)


def _asked(host: str, port: int) -> int:
    """Return the pid of a child that exits with 0 if a client gets an answer; it may hang."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _client(host, port).num_keys()
            os._exit(0)
        os._exit(1)
    return pid


def _answered(pid: int, end: float) -> bool:
    """Return whether the child got an answer; one that has not ended by then is killed."""
    watch = os.pidfd_open(pid)
    if not select.select([watch], [], [], max(0.0, end - time.monotonic()))[0]:
        os.kill(pid, signal.SIGKILL)
    os.close(watch)
    return os.waitpid(pid, 0)[1] == 0


def _guesses() -> list[str]:
    """Return keys that stateless groups are documented to use."""
    pairs = [(rank, number) for rank in range(_RANKS) for number in range(_NUMBERS)]
    return [
        f"{word}/{rank}/{number}"
        for word in ("send_to", "broadcast_from")
        for rank, number in pairs
    ]
