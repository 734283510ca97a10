"""Options of several commands, read the same way by all of them."""

from __future__ import annotations

import contextlib
import math
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError
from collections.abc import Iterable
from typing import cast


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
    """Return the number of plays at a time.

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


def say_defaults(parser: ArgumentParser) -> None:
    """Have the help of each option, of its subcommands too, name the default that it has.

    An option whose help does so already is left alone, and one that is only given or not.
    """
    for action in parser._actions:
        choices: object = action.choices
        if isinstance(choices, dict):
            for each in cast("dict[str, object]", choices).values():
                if isinstance(each, ArgumentParser):
                    say_defaults(each)
        if not action.option_strings or action.help == SUPPRESS:
            continue
        default: object = action.default
        given = isinstance(default, bool) or default in (None, SUPPRESS, [], ())
        if given or "default" in (action.help or ""):
            continue
        action.help = f"{action.help or ''} (default: {_worded(default)})".strip()


def _worded(default: object) -> str:
    """A default as one would type it."""
    if isinstance(default, float):
        return f"{default:g}"
    if isinstance(default, (list, tuple)):
        return ",".join(map(_worded, cast("Iterable[object]", default)))
    return str(default).replace("%", "%%")
