"""The frames that two ends of a session exchange, inside an encrypted connection.

Each is `[kind, 1 byte][fields, big-endian]`; a DATA frame is followed by its body as a frame of
its own, so that a large body is not copied to stand behind a header. To a server it goes in pieces:
there no frame may be longer than `PIECE_BYTES`.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ..base.security import PIECE_BYTES

HELLO, WELCOME, REFUSED, DATA, RECEIVED, BYE, DROPPED, UNSAID, HEARD = range(1, 10)
TOKEN_BYTES = 16

_MAGIC = b"RFL1"
_HELLO = struct.Struct(f">B4sI32s{TOKEN_BYTES}sQII")
_WELCOME = struct.Struct(f">BQI{TOKEN_BYTES}s")
_REFUSED = struct.Struct(">Bi")
_NUMBER = struct.Struct(">BQ")


@dataclass(frozen=True)
class Hello:
    """A client's first frame on each connection."""

    rank: int
    secret: bytes
    token: bytes
    """Identity of the client, which distinguishes a return from a second claimant."""
    received: int
    """Number of messages that it has received: the server goes on from there."""
    pid: int
    attempt: int
    """Number of the connection among those that the client has tried: hellos may change places."""

    def pack(self) -> bytes:
        """Return the frame."""
        fields = self.rank, self.secret, self.token, self.received, self.pid, self.attempt
        return _HELLO.pack(HELLO, _MAGIC, *fields)

    @classmethod
    def unpack(cls, frame: bytes) -> "Hello | None":
        """Return the hello in a frame, or None if it is none."""
        if len(frame) != _HELLO.size:
            return None
        kind, magic, *fields = _HELLO.unpack(frame)
        return cls(*fields) if kind == HELLO and magic == _MAGIC else None


def welcome(received: int, pid: int, token: bytes) -> bytes:
    """Return the server's answer to a good hello: messages received from the rank, a token."""
    return _WELCOME.pack(WELCOME, received, pid, token)


def welcomed(frame: bytes) -> tuple[int, int, bytes]:
    """Return (received, pid, token) of a welcome."""
    _, received, pid, token = _WELCOME.unpack(frame)
    return received, pid, token


def refusal(rank: int, reason: str) -> bytes:
    """Return the server's answer to a hello with a wrong rank."""
    return _REFUSED.pack(REFUSED, rank) + reason.encode()


def refused(frame: bytes) -> tuple[int, str]:
    """Return (rank, reason) of a refusal."""
    _, rank = _REFUSED.unpack_from(frame)
    return rank, frame[_REFUSED.size :].decode(errors="replace")


def pieces(body: bytes | bytearray) -> list[bytes | bytearray | memoryview]:
    """Split a body into frames that a server reads: it takes larger ones from no party."""
    if len(body) <= PIECE_BYTES:
        return [body]
    view = memoryview(body)
    return [view[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES)]


def whole(found: Sequence[memoryview]) -> memoryview:
    """Return the body of its pieces."""
    return found[0] if len(found) == 1 else memoryview(b"".join(found))


def numbered(kind: int, number: int) -> bytes:
    """Return a DATA header (a number), a RECEIVED (a count), or a BYE (messages posted in all)."""
    return _NUMBER.pack(kind, number)


def number_of(frame: bytes) -> int:
    """Return the number in such a frame."""
    return int(_NUMBER.unpack(frame)[1])
