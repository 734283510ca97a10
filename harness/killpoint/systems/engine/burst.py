"""Requests of bursts: prompts of families, of which each begins with the same blocks."""

from __future__ import annotations

import random

from killpoint.systems.engine.load import EngineRequest
from killpoint.systems.engine.steps import Ask
from killpoint.targets.engine_protocol import EngineShape

_SEGMENTS = 3
"""Number of different blocks that all prompts are made of, but for their ends and first ones."""
_TOKENS = range(1, 256)


class Requests:
    """The different requests of a play's bursts, numbered as they come up."""

    def __init__(self, shape: EngineShape, seed: int) -> None:
        self._shape, self._seed = shape, seed
        self._known: dict[tuple[tuple[int, ...], int], EngineRequest] = {}

    def of(self, ask: Ask) -> EngineRequest:
        """Return what is asked for; those who ask for the same get the same."""
        prompt = prompt_of(ask, self._shape, self._seed)
        made = EngineRequest(len(self._known), prompt, ask.max_tokens)
        return self._known.setdefault((prompt, ask.max_tokens), made)

    def known(self) -> list[EngineRequest]:
        """Return every one, once each; ``key`` is the place in the list."""
        return list(self._known.values())


def prompt_of(ask: Ask, shape: EngineShape, seed: int) -> tuple[int, ...]:
    """Return the tokens of a prompt.

    The first block is the family's own. Later ones are chosen from few, so that the same block
    comes at the same place of several families, behind different ones.
    """
    size = shape.block_size
    segments = [_tokens(random.Random(f"block {seed} {n}"), size) for n in range(_SEGMENTS)]
    chance = random.Random(f"family {seed} {ask.family}")
    first = _tokens(chance, size)
    blocks = [first, *(chance.choice(segments) for _ in range(ask.blocks - 1))]
    own = random.Random(f"own {seed} {ask.family} {ask.blocks} {ask.own}")
    prompt = [token for block in blocks[: ask.blocks] for token in block]
    return (*prompt, *_tokens(own, ask.own))


def _tokens(chance: random.Random, length: int) -> list[int]:
    return [chance.choice(_TOKENS) for _ in range(length)]
