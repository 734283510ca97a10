"""The reference computation of the model: the oracle for every topology, batch and fault (E2).

Written from the formulas, in int64 by numpy: no blocks, no batch, no ranks, no torch. What later
tokens do not change, the keys and values of earlier positions, is computed once.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy

from .size import FOLD, GAIN, HALF, NEAR, SHARPNESS, ModelSize
from .tokens import END
from .weights import LayerWeights, Matrix, Weights, weights_of

_weights = lru_cache(maxsize=4)(weights_of)


def reference_generate(
    prompt: Sequence[int], max_tokens: int, size: ModelSize | None = None
) -> list[int]:
    """Return up to `max_tokens` tokens that follow the prompt, without END."""
    size = size or ModelSize()
    text, found, answer = _Text(size, _weights(size)), list(prompt), list[int]()
    while len(answer) < max_tokens:
        token = text.extended(found)
        if token == END:
            break
        answer.append(token)
        found = [token]
    return answer


def reference_next_token(tokens: Sequence[int], size: ModelSize, weights: Weights) -> int:
    """Return the token that follows, with every position computed anew."""
    return _Text(size, weights).extended(tokens)


class _Text:
    """The positions so far: the keys and values of each, layer by layer."""

    def __init__(self, size: ModelSize, weights: Weights) -> None:
        self._size, self._weights = size, weights
        none = numpy.zeros((size.heads, 0, size.head_width), numpy.int64)
        self._past = [(none, none)] * size.layers
        self._length = 0

    def extended(self, tokens: Sequence[int]) -> int:
        """Add tokens; return the one that follows."""
        size, weights = self._size, self._weights
        positions = numpy.arange(self._length, self._length + len(tokens))
        self._length += len(tokens)
        hidden = weights.tokens[list(tokens)] + weights.near[positions % NEAR]
        hidden = _fold(hidden + weights.far[positions // NEAR % NEAR])
        for number, layer in enumerate(weights.layers):
            hidden = _fold(hidden + self._attend(hidden, number, layer) @ layer.out.T)
            inner = numpy.maximum(_fold(hidden @ layer.into.T), 0)
            hidden = _fold(hidden + inner @ layer.out_of.T)
        logits = hidden[-1] @ weights.head.T
        return int(numpy.argmax(logits * size.vocabulary - numpy.arange(size.vocabulary)))

    def _attend(self, hidden: Matrix, number: int, layer: LayerWeights) -> Matrix:
        size, new = self._size, len(hidden)
        query, key, value = (
            _fold(hidden @ part.T).reshape(new, size.heads, size.head_width).swapaxes(0, 1)
            for part in (layer.query, layer.key, layer.value)
        )
        keys, values = self._past[number]
        keys, values = numpy.concatenate([keys, key], 1), numpy.concatenate([values, value], 1)
        self._past[number] = keys, values
        scores = (query @ keys.swapaxes(1, 2)) >> size.score_bits
        exponents = numpy.clip(scores + SHARPNESS // 2, 0, SHARPNESS)
        weights = numpy.tril(numpy.int64(1) << exponents, keys.shape[1] - new)
        average = GAIN * (weights @ values) // weights.sum(-1, keepdims=True)
        return _fold(average.swapaxes(0, 1).reshape(new, size.width))


def _fold(values: Matrix) -> Matrix:
    return (values + HALF) % FOLD - HALF
