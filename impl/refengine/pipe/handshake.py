"""Two parties prove to each other that they know the key, before anything else is said (S3).

No I/O. Four messages of fixed size: hello, welcome (the listener's proof), proof (the connecting
party's), verdict. Every proof covers both fresh nonces and all that was said, so none can be used
again, and none can be turned around.
"""

import hmac
import secrets
import struct
from dataclasses import dataclass

from ..base.security import Keys
from .places import PLACE_BYTES, Place

CONTROL = 0xFFFFFFFF
"""In place of a link's number: the connection by which all meet at rank 0."""

_NONCE_BYTES = 32
_PROOF_BYTES = 32
_MAGIC = b"RKH1"
_HELLO = struct.Struct(f">4sIIII{_NONCE_BYTES}s{PLACE_BYTES}s")
_WELCOME = struct.Struct(f">I{_NONCE_BYTES}s{PLACE_BYTES}s")
_VERDICT = struct.Struct(">B255s")

HELLO_BYTES = _HELLO.size
WELCOME_BYTES = _WELCOME.size + _PROOF_BYTES
PROOF_BYTES = _PROOF_BYTES
VERDICT_BYTES = _VERDICT.size


@dataclass(frozen=True)
class Caller:
    """Whoever connects: which rank, what for, where its tensors are."""

    rank: int
    size: int
    link: int
    """The rank that sends over it, or CONTROL."""
    pid: int
    place: Place


class Connecting:
    """The connecting party's half."""

    def __init__(self, keys: Keys, me: Caller) -> None:
        self._keys = keys
        nonce = secrets.token_bytes(_NONCE_BYTES)
        self.hello = _HELLO.pack(_MAGIC, me.rank, me.size, me.link, me.pid, nonce, me.place.pack())
        self._said = b""
        self.pid, self.place = 0, me.place

    def proof(self, welcome: bytes) -> bytes | None:
        """What answers the welcome; None if that does not come from one who knows the key."""
        fields, theirs = welcome[: _WELCOME.size], welcome[_WELCOME.size :]
        self._said = self.hello + fields
        if not hmac.compare_digest(theirs, _digest(self._keys, b"listens", self._said)):
            return None
        self.pid, _, place = _WELCOME.unpack(fields)
        self.place = Place.unpack(place)
        return _digest(self._keys, b"connects", self._said)

    @property
    def session(self) -> bytes:
        """A key that only these two parties have, for this connection."""
        return _digest(self._keys, b"session", self._said)


class Listening:
    """The listener's half, for one connection."""

    def __init__(self, keys: Keys, pid: int, place: Place) -> None:
        self._keys, self._pid, self._place = keys, pid, place
        self._said = b""
        self.caller: Caller | None = None

    def welcome(self, hello: bytes) -> bytes | None:
        """What answers a hello; None if that is none."""
        magic, rank, size, link, pid, _, place = _HELLO.unpack(hello)
        if magic != _MAGIC:
            return None
        try:
            self.caller = Caller(rank, size, link, pid, Place.unpack(place))
        except ValueError:
            return None
        nonce = secrets.token_bytes(_NONCE_BYTES)
        mine = _WELCOME.pack(self._pid, nonce, self._place.pack())
        self._said = hello + mine
        return mine + _digest(self._keys, b"listens", self._said)

    def proves(self, proof: bytes) -> bool:
        """Whether the caller knows the key."""
        return hmac.compare_digest(proof, _digest(self._keys, b"connects", self._said))

    @property
    def session(self) -> bytes:
        """As the other party has it."""
        return _digest(self._keys, b"session", self._said)


def verdict(reason: str = "") -> bytes:
    """The listener's last word: a reason is a refusal."""
    return _VERDICT.pack(bool(reason), reason.encode()[:255])


def refusal(said: bytes) -> str:
    """The reason in a verdict; empty if it is none."""
    refused, reason = _VERDICT.unpack(said)
    return reason.rstrip(b"\0").decode(errors="replace") or "no reason" if refused else ""


def _digest(keys: Keys, what: bytes, said: bytes) -> bytes:
    return hmac.digest(keys.secret, b"refengine pipe " + what + b"\0" + said, "sha256")
