"""One completion as it grows: tokens in, text out, to its end or to a stop string.

Tokens are taken one by one, so that where a text ends does not depend on how they came.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine import Delta
from ..engine.tokens import TextStream
from .stop import StopFinder


@dataclass(frozen=True)
class Piece:
    """What one delta adds to a completion."""

    text: str
    """Of whole characters; what may yet become a stop string comes later, or never."""
    tokens: tuple[int, ...]
    finish: str | None = None


class Choice:
    """The completion of one prompt."""

    def __init__(self, stops: tuple[str, ...] = ()) -> None:
        self.text = ""
        self.tokens: list[int] = []
        """Those of the stop string included, which the text lacks."""
        self.finish: str | None = None
        self._decoder = TextStream()
        self._finder = StopFinder(stops)

    def take(self, delta: Delta) -> Piece:
        """What this adds; nothing is to be taken after a finish."""
        text, began = "", len(self.tokens)
        for token in delta.tokens:
            self.tokens.append(token)
            text += self._finder.push(self._decoder.push([token]))
            if self._finder.stopped:
                break
        self.finish = delta.finish
        if delta.finish and not self._finder.stopped:
            text += self._finder.push(self._decoder.finish()) + self._finder.end()
        if self._finder.stopped:
            self.finish = "stop"
        self.text += text
        return Piece(text, tuple(self.tokens[began:]), self.finish)
