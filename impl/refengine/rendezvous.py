"""Who has arrived: the writer's half of the handshake as a state machine (SPEC Q10, Q17).

A reader is absent → welcomed (its hello was good) → subscribed (its nonce came up the overflow
socket). Ready when all are subscribed. A departure never counts as an arrival.
"""

import secrets
import struct
from collections.abc import Collection
from dataclasses import dataclass

from .security import Keys

_HELLO = struct.Struct(">4sI32s")
_MAGIC = b"RFE1"
HELLO_BYTES = _HELLO.size
WELCOME, REFUSED, GO = b"WELCOME ", b"REFUSED ", b"GO"
NONCE_BYTES = 16


def hello(rank: int, keys: Keys) -> bytes:
    """A reader's first message."""
    return _HELLO.pack(_MAGIC, rank, keys.secret)


@dataclass(frozen=True)
class Welcome:
    """A good hello: the rank and the nonce it must subscribe to."""

    rank: int
    nonce: bytes


@dataclass(frozen=True)
class Refusal:
    """A bad hello. `ours` if it proved to know the key: then the writer is told, too."""

    rank: int
    reason: str
    ours: bool


class Rendezvous:
    """Collects hellos and subscriptions for the given ranks."""

    def __init__(self, ranks: Collection[int], keys: Keys) -> None:
        self._ranks, self._keys = set(ranks), keys
        self._welcomes: dict[int, Welcome] = {}
        self._subscribed: set[int] = set()

    def hello(self, message: bytes, caller: int) -> Welcome | Refusal:
        """Judge a connection's first message; `caller`: which connection. Always the same."""
        if caller in self._welcomes:
            return self._welcomes[caller]
        if len(message) != _HELLO.size:
            return Refusal(-1, "that is no hello", False)
        magic, rank, secret = _HELLO.unpack(message)
        if not self._keys.match(secret) or magic != _MAGIC:
            return Refusal(-1, "wrong key", False)
        if rank not in self._ranks:
            return Refusal(rank, f"unknown; the ranks are {sorted(self._ranks)}", True)
        if any(given.rank == rank for given in self._welcomes.values()):
            return Refusal(rank, "another reader already has it", True)
        self._welcomes[caller] = Welcome(rank, secrets.token_bytes(NONCE_BYTES))
        return self._welcomes[caller]

    def subscription(self, frame: bytes) -> None:
        """A frame from the overflow socket: 1 + topic is an arrival, all else is not."""
        if frame[:1] == b"\1":
            nonce = frame[1:]
            self._subscribed |= {w.rank for w in self._welcomes.values() if w.nonce == nonce}

    def unheard(self) -> int:
        """How many ranks have not said a good hello."""
        return len(self._ranks) - len(self._welcomes)

    def missing(self) -> list[int]:
        """Ranks that have not fully arrived."""
        return sorted(self._ranks - self._subscribed)
