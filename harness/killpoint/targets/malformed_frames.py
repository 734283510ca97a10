"""MessagePack that no decoder may take: bad UTF-8, nesting without end, and mutants of messages."""

from __future__ import annotations

import random

import msgspec

NOT_TEXT = bytes.fromhex("92a6fffeffffffff01")
"""An array of a text that is no UTF-8, and 1."""
DEEP = b"\x91" * 2000
"""Arrays in arrays, further down than Python's recursion goes."""
_MUTANTS = 64
_HEADS = (0x81, 0x91, 0xA6, 0xC1, 0xC4, 0xC7, 0xCB, 0xCF, 0xD6, 0xDD, 0xDF, 0xFF)
"""First bytes of other kinds of value."""
_SUBSCRIPTIONS = (b"", b"\0", b"\1")
"""First bytes that some sockets take for a subscription, and not for a message."""


def fuzzed(message: bytes) -> list[bytes]:
    """Mutants of a message, the same each time, none of which is MessagePack."""
    chance = random.Random(message)
    found: list[bytes] = []
    while len(found) < _MUTANTS:
        mutant = _mutant(message, chance)
        if mutant[:1] not in _SUBSCRIPTIONS and not _is_messagepack(mutant):
            found.append(mutant)
    return found


def _mutant(message: bytes, chance: random.Random) -> bytes:
    made = bytearray(message)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(4):
            case 0:
                made[at : at + 1] = chance.randbytes(1)
            case 1:
                made.insert(at, chance.choice(_HEADS))
            case 2:
                del made[at:]
            case _:
                made += chance.randbytes(chance.randint(1, 8))
    return bytes(made)


def _is_messagepack(frame: bytes) -> bool:
    try:
        msgspec.msgpack.decode(frame)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        return False
    return True
