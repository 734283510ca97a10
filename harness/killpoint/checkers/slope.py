"""A robust slope with its interval: Theil's median of pairwise slopes, Sen's bounds by ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import median

import msgspec

_Z = 2.576
"""Standard deviations of a normal variable that 99 in 100 lie within."""
LEAST = 10
"""Points below which Kendall's statistic is not near enough to normal."""


class Slope(msgspec.Struct, frozen=True):
    """Growth of ``y`` per unit of ``x``, and the 99 % interval of it."""

    at: float
    low: float
    high: float


def slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """The slope of ``y`` over ``x``: two sequences of one length, ``LEAST`` at least.

    Memory grows by pages and by what a cache takes at once, so that its errors are neither normal
    nor alike: least squares with a t-interval would let one step of an arena stand for a leak. Of
    the slopes between all pairs of points, up to 29 in 100 of the points may lie anywhere without
    moving the median far, and the bounds are two of those slopes, chosen by rank: as far from the
    middle as Kendall's statistic goes by chance.

    Raises:
        ValueError: fewer points than ``LEAST``, or no two with different ``x``.
    """
    count = len(x)
    points = zip(x, y, strict=True)
    pairs = sorted((v - b) / (u - a) for (a, b), (u, v) in combinations(points, 2) if u != a)
    if count < LEAST or not pairs:
        raise ValueError(f"{count} points, {len(pairs)} slopes; expected {LEAST} points or more")
    spread = _Z * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    low = max(0, math.floor((len(pairs) - spread) / 2))
    high = min(len(pairs) - 1, math.ceil((len(pairs) + spread) / 2))
    return Slope(median(pairs), pairs[low], pairs[high])
