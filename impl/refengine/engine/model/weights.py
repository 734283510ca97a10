"""The model's weights: small integers from a seed, the same in every process."""

from dataclasses import dataclass
from typing import Any

import numpy

from .size import HALF, NEAR, WEIGHT, ModelSize

Matrix = numpy.ndarray[Any, numpy.dtype[numpy.int64]]


@dataclass(frozen=True)
class LayerWeights:
    """Weights of one layer; each is (outputs, inputs)."""

    query: Matrix
    key: Matrix
    value: Matrix
    out: Matrix
    into: Matrix
    out_of: Matrix


@dataclass(frozen=True)
class Weights:
    """Weights of the whole model; a rank takes its slice."""

    tokens: Matrix
    near: Matrix
    far: Matrix
    layers: tuple[LayerWeights, ...]
    head: Matrix


def weights_of(size: ModelSize) -> Weights:
    """Return the weights of a model of this size, as int64."""
    source = numpy.random.Generator(numpy.random.PCG64(size.seed))

    def drawn(most: int, *shape: int) -> Matrix:
        return source.integers(-most, most, shape, dtype=numpy.int64, endpoint=True)

    def layer() -> LayerWeights:
        query, key, value, out = (drawn(WEIGHT, size.width, size.width) for _ in range(4))
        into = drawn(WEIGHT, size.inner, size.width)
        return LayerWeights(query, key, value, out, into, drawn(WEIGHT, size.width, size.inner))

    return Weights(
        drawn(HALF, size.vocabulary, size.width),
        drawn(HALF, NEAR, size.width),
        drawn(HALF, NEAR, size.width),
        tuple(layer() for _ in range(size.layers)),
        drawn(HALF, size.vocabulary, size.width),
    )
