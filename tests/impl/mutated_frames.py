"""MessagePack frames of a broken or hostile peer: valid ones, a few bytes of them changed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

FATAL = (
    bytes.fromhex("92a6fffeffffffff01"),
    b"\x91" * 2000,
    b"\x81\x80\x01",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc7\x0c\xff" + b"\xff" * 12,
)
"""Text that is no UTF-8, nesting without end, a key that cannot be hashed, sizes beyond memory."""
_HEADS = (0x80, 0x81, 0x91, 0x92, 0xA6, 0xC1, 0xC4, 0xC7, 0xCB, 0xCF, 0xD3, 0xD6, 0xDD, 0xDF, 0xFF)
"""First bytes of other kinds of value."""
_DEPTHS = (1, 5, 2000)


def mutated(valid: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """The fatal ones, then so many mutants of valid frames, the same for the same seed."""
    yield from FATAL
    chance = random.Random(seed)
    for _ in range(count):
        yield _mutant(chance.choice(valid), chance)


def _mutant(frame: bytes, chance: random.Random) -> bytes:
    made = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(5):
            case 0:
                made[at : at + 1] = chance.randbytes(1)
            case 1:
                made.insert(at, chance.choice(_HEADS))
            case 2:
                del made[at:]
            case 3:
                made += chance.randbytes(chance.randint(1, 12))
            case _:
                made[:0] = bytes([chance.choice((0x81, 0x91, 0x92))]) * chance.choice(_DEPTHS)
    return bytes(made)
