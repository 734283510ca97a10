"""Measurements of a server beside its answers: its own gauges, and the rate of text."""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from dataclasses import dataclass, field

_WINDOW = 21
"""Samples over which the rate of text is measured: two seconds of them."""
_NEARLY = 0.8


@dataclass
class TextRate:
    """Rate of text now, and undisturbed."""

    undisturbed: float = 0.0
    """Characters of streams a second while every client asked at once."""
    parts: set[str] = field(default_factory=set[str])
    """Parts that lived before the last fault."""
    _seen: deque[tuple[float, int]] = field(
        default_factory=lambda: deque["tuple[float, int]"](maxlen=_WINDOW)
    )

    def note(self, chars: int) -> None:
        """Take a sample: the characters that have come so far."""
        self._seen.append((time.monotonic(), chars))

    def is_whole(self, since: float) -> bool:
        """Return whether samples since that time alone show nearly the undisturbed rate."""
        if len(self._seen) < _WINDOW or self._seen[0][0] < since:
            return False
        (began, then), (t, now) = self._seen[0], self._seen[-1]
        return now - then >= _NEARLY * self.undisturbed * (t - began)


def summed(metrics: str, names: list[str]) -> float:
    """Return the sum of all samples of these gauges, in a text of Prometheus' form."""
    total = 0.0
    for name in names:
        for found in re.finditer(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)", metrics, re.MULTILINE):
            with contextlib.suppress(ValueError):
                total += float(found[1])
    return total


def shared(metrics: str, names: list[str]) -> list[float]:
    """Return a sum for each set of labels, in their order, of all samples of these gauges."""
    sums: dict[str, float] = {}
    for name in names:
        for found in re.finditer(rf"^{re.escape(name)}(\{{.*\}}) (\S+)", metrics, re.MULTILINE):
            with contextlib.suppress(ValueError):
                sums[found[1]] = sums.get(found[1], 0.0) + float(found[2])
    return [sums[labels] for labels in sorted(sums)]
