"""What options of several commands take, read the same way by all of them."""

from __future__ import annotations

import contextlib
import math
from argparse import ArgumentTypeError


def names(text: str) -> list[str]:
    """Words that commas part: ids, cases, targets.

    Raises:
        ArgumentTypeError: there is none.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ArgumentTypeError(f"{text!r} names nothing; expected words that commas part")
    return words


def jobs(text: str) -> int:
    """How many plays at a time.

    Raises:
        ArgumentTypeError: not a whole number above 0.
    """
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number of plays; expected 1 or more")
    return int(text)


def seconds(text: str) -> float:
    """A time above 0.

    Raises:
        ArgumentTypeError: not a finite number, or not above 0.
    """
    with contextlib.suppress(ValueError):
        if math.isfinite(found := float(text)) and found > 0:
            return found
    raise ArgumentTypeError(f"{text!r} is not a time; expected seconds above 0")


def seconds_or_none(text: str) -> float:
    """The same, or 0 for not at all."""
    with contextlib.suppress(ValueError):
        if float(text) == 0:
            return 0.0
    return seconds(text)
