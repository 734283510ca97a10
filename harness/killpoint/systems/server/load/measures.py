"""What is measured of a server beside its answers: its own gauges, and how much text comes."""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from dataclasses import dataclass, field

_WINDOW = 21
"""Samples in which it is seen how much comes: two seconds of them."""
_NEARLY = 0.8


@dataclass
class Pace:
    """How much text comes now, and how much came undisturbed."""

    undisturbed: float = 0.0
    """Characters of streams a second, as every client asked at once."""
    parts: set[str] = field(default_factory=set[str])
    """What lived before the last fault."""
    _seen: deque[tuple[float, int]] = field(
        default_factory=lambda: deque["tuple[float, int]"](maxlen=_WINDOW)
    )

    def note(self, chars: int) -> None:
        """So much has come so far."""
        self._seen.append((time.monotonic(), chars))

    def is_whole(self, since: float) -> bool:
        """Whether lately, and not before that time, as much came as undisturbed, or nearly."""
        if len(self._seen) < _WINDOW or self._seen[0][0] < since:
            return False
        (began, then), (t, now) = self._seen[0], self._seen[-1]
        return now - then >= _NEARLY * self.undisturbed * (t - began)


def summed(metrics: str, names: list[str]) -> float:
    """The sum of all samples of these gauges in a text of Prometheus' form."""
    total = 0.0
    for name in names:
        for found in re.finditer(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)", metrics, re.MULTILINE):
            with contextlib.suppress(ValueError):
                total += float(found[1])
    return total


def shared(metrics: str, names: list[str]) -> list[float]:
    """The sums of all samples of these gauges that have one set of labels, in its order."""
    sums: dict[str, float] = {}
    for name in names:
        for found in re.finditer(rf"^{re.escape(name)}(\{{.*\}}) (\S+)", metrics, re.MULTILINE):
            with contextlib.suppress(ValueError):
                sums[found[1]] = sums.get(found[1], 0.0) + float(found[2])
    return [sums[labels] for labels in sorted(sums)]
