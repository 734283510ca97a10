"""Sums of what several processes have measured, through all their lives: none ever falls."""

from __future__ import annotations

from collections import defaultdict

from ..metrics import Labels, Samples


class Totals:
    """Sans I/O. A process is known by its name; `retire` when it has ended."""

    def __init__(self) -> None:
        self._gone: Samples = ()
        self._alive: dict[str, Samples] = {}

    def heard(self, name: str, samples: Samples) -> None:
        """What it has measured since it was started."""
        self._alive[name] = samples

    def retire(self, name: str) -> None:
        """It has ended; another may come by its name."""
        self._gone = _sums(self._gone, self._alive.pop(name, ()))

    def samples(self) -> Samples:
        """Of all."""
        return _sums(self._gone, *self._alive.values())


def _sums(*several: Samples) -> Samples:
    sums: defaultdict[tuple[str, Labels], float] = defaultdict(float)
    for samples in several:
        for name, labels, value in samples:
            sums[name, labels] += value
    return tuple((name, labels, value) for (name, labels), value in sums.items())
