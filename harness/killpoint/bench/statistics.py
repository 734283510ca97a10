"""Paired ratios and what they can be trusted for: medians with exact, distribution-free intervals.

Samples of two peers that were taken next to each other form a pair, so that a machine whose speed
drifts slows both. The interval of the median comes from order statistics: with n independent
pairs, the k-th smallest and the k-th largest ratio enclose the true median unless at least
n - k + 1 of the pairs fell on one side of it, which has a binomial probability. Nothing is assumed
of how the ratios are spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

COVERAGE = 0.95


class Summary(msgspec.Struct, frozen=True):
    """A figure over its samples."""

    median: float
    least: float
    most: float
    samples: int


class Ratio(msgspec.Struct, frozen=True):
    """Ratio of the target's result to a peer's, turned so that above 1 the target is better."""

    median: float
    low: float
    high: float
    pairs: int
    coverage: float
    """Probability that [low, high] encloses the median; below 0.95 only with under 6 pairs."""


def summary(samples: Sequence[float]) -> Summary:
    """The median with the least and the most."""
    return Summary(quantile(samples, 0.5), min(samples), max(samples), len(samples))


def quantile(samples: Sequence[float], share: float) -> float:
    """The value below which that share of the samples lies, interpolated between neighbours."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def paired(target: Sequence[float], peer: Sequence[float], *, more_is_better: bool) -> Ratio:
    """The ratio of samples taken side by side: target/peer, or peer/target for times.

    Raises:
        ValueError: the samples are not pairs, or there are none.
    """
    if not target or len(target) != len(peer):
        raise ValueError(f"{len(target)} and {len(peer)} samples are not pairs")
    better, worse = (target, peer) if more_is_better else (peer, target)
    ratios = sorted(a / b if b else math.inf for a, b in zip(better, worse, strict=True))
    rank, coverage = enclosing(len(ratios))
    return Ratio(
        quantile(ratios, 0.5), ratios[rank - 1], ratios[-rank], len(ratios), round(coverage, 4)
    )


def enclosing(pairs: int, wanted: float = COVERAGE) -> tuple[int, float]:
    """The largest k whose interval [k-th smallest, k-th largest] has the wanted coverage.

    With too few pairs for it: 1, the least and the most, and the coverage that they have.
    """
    rank = 1
    while 2 * rank < pairs and _coverage(pairs, rank + 1) >= wanted:
        rank += 1
    return rank, _coverage(pairs, rank)


def _coverage(pairs: int, rank: int) -> float:
    outside = sum(math.comb(pairs, few) for few in range(rank)) / 2**pairs
    return 1 - 2 * outside
