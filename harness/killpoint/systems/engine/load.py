"""Requests of a load: prompts that share parts, and one request after another, from a seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

import msgspec

from killpoint.scenario import Load
from killpoint.targets.engine_protocol import EngineShape

_SEGMENTS = 3
"""Number of different runs of tokens that make up all prompts."""
_TOKENS = range(1, 256)


class EngineRequest(msgspec.Struct, frozen=True):
    """One request."""

    key: int
    """Number of its content: requests with the same key ask for the same. -1: for more than
    fits."""
    prompt: tuple[int, ...]
    max_tokens: int


def different(load: Load, shape: EngineShape, seed: int) -> list[EngineRequest]:
    """Return every request that a load makes, once each; ``key`` is the place in the list.

    A prompt is made of runs as long as a block, of which there are few: the same run comes at the
    same place of several prompts, behind different ones, so that a block that is reused for its own
    tokens alone holds the wrong cache.
    """
    chance = random.Random(f"load {seed}")
    segments = [[chance.choice(_TOKENS) for _ in range(shape.block_size)] for _ in range(_SEGMENTS)]
    found: list[EngineRequest] = []
    for key in range(load.prompts):
        whole = load.prompt_tokens // shape.block_size
        runs = [chance.choice(segments) for _ in range(chance.randint(min(1, whole), whole))]
        left = load.prompt_tokens - len(runs) * shape.block_size
        tail = [chance.choice(_TOKENS) for _ in range(chance.randint(1, min(left, 9) or 1))]
        prompt = [token for run in runs for token in run] + tail
        least = max(1, load.max_tokens // 2)
        found.append(EngineRequest(key, tuple(prompt), chance.randint(least, load.max_tokens)))
    return found


def asked(
    load: Load, shape: EngineShape, known: Sequence[EngineRequest], seed: int, n: int
) -> EngineRequest:
    """Return the load's n-th request."""
    if load.large_every and n % load.large_every == load.large_every - 1:
        return EngineRequest(-1, (7,) * (shape.blocks * shape.block_size + 1), 8)
    return random.Random(f"request {seed} {n}").choice(known)


def digest(tokens: Sequence[int]) -> str:
    """Return the digest of tokens: sixteen hexadecimal digits."""
    data = b"".join(int(token).to_bytes(4, "little") for token in tokens)
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def prefixes(tokens: Sequence[int]) -> list[str]:
    """Return the digests of the first none, one, two… tokens."""
    return [digest(tokens[:count]) for count in range(len(tokens) + 1)]
