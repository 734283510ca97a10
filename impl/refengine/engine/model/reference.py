"""The reference computation of the model: the oracle for every topology, batch and fault (E2).

Written from the formulas, in int64 by numpy: no cache, no batch, no ranks, no torch.
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
    weights = _weights(size)
    tokens = list(prompt)
    while len(tokens) < len(prompt) + max_tokens:
        found = reference_next_token(tokens, size, weights)
        if found == END:
            break
        tokens.append(found)
    return tokens[len(prompt) :]


def reference_next_token(tokens: Sequence[int], size: ModelSize, weights: Weights) -> int:
    """Return the token that follows."""
    positions = numpy.arange(len(tokens))
    hidden = weights.tokens[list(tokens)] + weights.near[positions % NEAR]
    hidden = _fold(hidden + weights.far[positions // NEAR % NEAR])
    for layer in weights.layers:
        hidden = _fold(hidden + _attend(hidden, layer, size) @ layer.out.T)
        inner = numpy.maximum(_fold(hidden @ layer.into.T), 0)
        hidden = _fold(hidden + inner @ layer.out_of.T)
    logits = hidden[-1] @ weights.head.T
    return int(numpy.argmax(logits * size.vocabulary - numpy.arange(size.vocabulary)))


def _attend(hidden: Matrix, layer: LayerWeights, size: ModelSize) -> Matrix:
    query, key, value = (
        _fold(hidden @ part.T).reshape(len(hidden), size.heads, size.head_width).swapaxes(0, 1)
        for part in (layer.query, layer.key, layer.value)
    )
    scores = (query @ key.swapaxes(1, 2)) >> size.score_bits
    exponents = numpy.clip(scores + SHARPNESS // 2, 0, SHARPNESS)
    weights = numpy.tril(numpy.int64(1) << exponents)
    average = GAIN * (weights @ value) // weights.sum(-1, keepdims=True)
    return _fold(average.swapaxes(0, 1).reshape(len(hidden), size.width))


def _fold(values: Matrix) -> Matrix:
    return (values + HALF) % FOLD - HALF
