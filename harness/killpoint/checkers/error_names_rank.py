"""Ranks named in errors: a person has to know which machine to look at."""

from __future__ import annotations

import re
from collections.abc import Collection

_NAMED = re.compile(
    r"\b(?:ranks?|members?|peers?|host)\b[\s:=#_\[({-]*((?:\d+(?:\s*(?:,|;|/|and|&)\s*)?)+)",
    re.IGNORECASE,
)


def ranks_listed(text: str) -> list[set[int]]:
    """The ranks that a text names, each list of them by itself: ``rank 2``, ``ranks 0, 1``.

    A number alone does not count: it may be a port, a pid, or seconds.
    """
    lists: list[str] = _NAMED.findall(text)
    return [{int(number) for number in re.findall(r"\d+", each)} for each in lists]


def ranks_named(text: str) -> set[int]:
    """The ranks that a text names: ``rank 2``, ``rank-2``, ``ranks 1 and 2``, ``ranks [1, 2]``."""
    return set[int]().union(*ranks_listed(text))


def names_one_of(text: str, ranks: Collection[int]) -> bool:
    """Return whether a text names at least one of these ranks."""
    return bool(ranks_named(text) & set(ranks))
