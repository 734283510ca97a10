"""Result of a bisection: one sentence, and all that was tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from killpoint.bisection.probe import Reply
from killpoint.bisection.search import Bracket, Word

OPPOSITE: dict[Word, Word] = {"held": "violated", "violated": "held"}


class Tried(msgspec.Struct, frozen=True):
    """One candidate that was asked."""

    name: str
    outcome: Word
    kind: str
    cause: str
    seconds: float

    @staticmethod
    def of(name: str, reply: Reply, seconds: float) -> Tried:
        """Return the record of a candidate's reply, and of the time that it took."""
        return Tried(name, reply.word, reply.kind, reply.cause, round(seconds, 1))

    def line(self) -> str:
        """Return a line for people: ``vllm==0.25.0: violated (duplicate), 2.1 s``."""
        kind = f" ({self.kind})" if self.kind else ""
        return f"{self.name}: {self.outcome}{kind}, {self.seconds:.1f} s" + self._why()

    def _why(self) -> str:
        return f"; {self.cause}" if self.outcome == "skipped" else ""


class Answer(msgspec.Struct, frozen=True):
    """The two neighbours between which the outcome changed, as far as it could be found."""

    asked: str
    found: Literal["change", "range", "nothing"]
    """``range``: candidates between the two could not be judged; ``nothing``: an end could not."""
    sentence: str
    older: str = ""
    """The last that comes out as the old end does."""
    newer: str = ""
    """The first that comes out as the new end does."""
    between: list[str] = []
    """Skipped, and so possibly the first that differs."""
    tried: list[Tried] = []
    """Candidates that were tried, in the order of the plays, the ends first."""

    def status(self) -> int:
        """Exit status: 0 the change was found; 3 only a range, or nothing."""
        return 0 if self.found == "change" else 3


def undecided(asked: str, end: Tried, tried: list[Tried]) -> Answer:
    """Return the answer where an end could not be judged: nothing can be searched then."""
    sentence = f"{asked}: nothing can be said, since {end.name} could not be judged: {end.cause}"
    return Answer(asked, "nothing", sentence, tried=tried)


def answer(asked: str, names: Sequence[str], bracket: Bracket, tried: list[Tried]) -> Answer:
    """Return the answer of a search that is over."""
    older, newer = names[bracket.low], names[bracket.high]
    between = list(names[bracket.low + 1 : bracket.high])
    sentence = f"{asked}: {bracket.older} up to {older}, {OPPOSITE[bracket.older]} from {newer}"
    if between:
        sentence += f"; between them could not be judged: {', '.join(between)}"
    found = "range" if between else "change"
    return Answer(asked, found, sentence, older, newer, between, tried)
