"""Passes: each offers smaller scenarios one by one, and learns which of them still fail."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from killpoint.scenario import Scenario

Pass = Callable[[Scenario], Generator[Scenario, bool]]
"""Yields candidates; the value sent back is whether the one just offered still fails. A pass goes
on from one that does. Nothing is played in a pass."""

T = TypeVar("T")


def least(
    now: int, lowest: int, build: Callable[[int], Scenario | None], grain: int = 0
) -> Generator[Scenario, bool, int]:
    """Lower a number as far as it goes: the lowest first, then by halves of what is between.

    Where failing is not monotonous this ends in a number whose predecessor does not fail. With a
    grain it ends sooner, once all that is left to gain is a ``1 / grain`` of the number.
    """
    if now <= lowest:
        return now
    if (yield from offer(build(lowest))):
        return lowest
    passing = lowest
    while now - passing > max(1, now // grain if grain else 0):
        middle = (now + passing) // 2
        if (yield from offer(build(middle))):
            now = middle
        else:
            passing = middle
    return now


def fewest(
    parts: Sequence[T], build: Callable[[Sequence[T]], Scenario | None], keep: int = 0
) -> Generator[Scenario, bool, Sequence[T]]:
    """Drop parts of a sequence, long runs of them first (delta debugging), down to ``keep``."""
    run = len(parts)
    while run:
        end = len(parts)
        while end:
            start = max(0, end - run)
            fewer = [*parts[:start], *parts[end:]]
            if len(fewer) >= keep and (yield from offer(build(fewer))):
                parts = fewer
            end = start
        run = min(run, len(parts)) // 2
    return parts


def offer(candidate: Scenario | None) -> Generator[Scenario, bool, bool]:
    """Offer a candidate, and return whether it still fails; None does not."""
    return False if candidate is None else (yield candidate)
