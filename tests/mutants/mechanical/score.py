"""The score: how many mutants somebody noticed, and the list of those that nobody did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from mechanical.trial import Fate


class Score(msgspec.Struct):
    """Mutants of one area or module."""

    killed: int = 0
    timed_out: int = 0
    survived: int = 0
    not_covered: int = 0
    explained: int = 0
    """Equivalent to the original, each with a reason; not among those that count."""
    untried: int = 0
    """Left out by a sample, or because the time was up; not among those that count."""

    @property
    def counted(self) -> int:
        """Mutants that the score is made of."""
        return self.killed + self.timed_out + self.survived + self.not_covered

    @property
    def percent(self) -> float:
        """The share that was noticed; 100 of none."""
        return 100 * (self.killed + self.timed_out) / self.counted if self.counted else 100.0

    def __str__(self) -> str:
        """For a line of the report."""
        parts = [f"{self.percent:5.1f} %", f"{self.killed + self.timed_out} of {self.counted}"]
        parts += [f"{self.timed_out} by their deadline"] * bool(self.timed_out)
        parts += [f"{self.not_covered} not covered"] * bool(self.not_covered)
        parts += [f"{self.explained} explained"] * bool(self.explained)
        parts += [f"{self.untried} not tried"] * bool(self.untried)
        return ", ".join(parts)


def scored(fates: Iterable[Fate], explained: int = 0, untried: int = 0) -> Score:
    """The score of these fates."""
    score = Score(explained=explained, untried=untried)
    for fate in fates:
        word = fate.word.replace("-", "_")
        setattr(score, word, getattr(score, word) + 1)
    return score


def report(
    areas: Mapping[str, Sequence[str]],
    fates: Sequence[Fate],
    explained: Mapping[str, int],
    untried: Mapping[str, int],
) -> Iterator[str]:
    """Lines for people: each area with its files, then the survivors, by place."""
    for area, files in areas.items():
        mine = [fate for fate in fates if fate.file in files]
        rest = [sum(counts.get(file, 0) for file in files) for counts in (explained, untried)]
        yield f"{area:24} {scored(mine, *rest)}"
        for file in files if len(files) > 1 else ():
            some = [fate for fate in mine if fate.file == file]
            if some or explained.get(file) or untried.get(file):
                counts = explained.get(file, 0), untried.get(file, 0)
                yield f"  {file:22} {scored(some, *counts)}"
    for fate in sorted(fates, key=lambda fate: (fate.file, fate.line)):
        if not fate.caught:
            place = f"{fate.file}:{fate.line} {fate.scope}"
            yield f"\n{place}: {fate.word}, {fate.tests} tests touch it"
            yield f"  - {fate.old}"
            yield f"  + {fate.new}"
