"""The signature of a violation: the same for the same bug, whatever the numbers of the day were."""

from __future__ import annotations

import hashlib
import re

_DIGITS = 10
"""Digits of the hash: enough that among a million causes no two are likely to meet."""

_KEPT = re.compile(r"\b(signal|status) (\d+)")
"""Signal 9 is another cause than signal 11."""

_STEPS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        # what a process, a play or a machine draws anew
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "N"),
        (r"\b0x[0-9a-fA-F]+\b", "N"),
        # a source file is its name: no folder, no line
        (r"(?:[\w.…~+-]*/)+([\w+-]+\.(?:pyx?|c|cc|cpp|cu|h|hpp|rs))\b", r"\1"),
        (r"(\.(?:pyx?|c|cc|cpp|cu|h|hpp|rs))(?:\"?, line |:)\d+", r"\1"),
        # any other path that begins at the root, or at an address
        (r"\b[a-z]+://(?:\[[^\]]*\]|[^\s,;'\")\]])+", "ADDRESS"),
        (r"(?<![\w.…/])/(?:[^\s,;:'\")\]]+)", "PATH"),
        (r"(?<=_)(?=[0-9a-f]*\d)[0-9a-f]{6,}\b", "N"),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "N"),
        # numbers with their units; those inside a name (int8, float8_e4m3fn) belong to it
        (r"(?<![\w.])[-+]?(?:\d[\d.]*e[-+]\d+|\d\w*(?:[.,:]\d\w*)*)", "N"),
        (r"N(?:[ \u00a0\u202f]N)+\b", "N"),
        (r"\bN ([a-z]{3,}?)s\b", r"N \1"),
        # how many of a kind are told
        (r"(\S*N\S*?)(?:(?:, and|,| and| or) \1)+(?!\w)", r"\1"),
        (r"\s+", " "),
    )
)


def signature(case_id: str, kind: str, cause: str) -> str:
    """The case, the kind and a hash of the cause: ``Q6/writer-dies:hang:1f0c83a2d4``.

    Two plays of one bug have the same one: numbers, process ids, times, addresses, paths, lines of
    sources and names drawn anew are no part of it; names of functions, source files and roles (but
    for their rank), and numbers of signals and exit statuses are.
    """
    digest = hashlib.sha256(normalised(cause).encode(errors="replace")).hexdigest()[:_DIGITS]
    return f"{case_id}:{kind}:{digest}"


def normalised(cause: str) -> str:
    """A cause without what differs from one play of it to the next, legible."""
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        kept.append(found[2])
        return f"{found[1]} \0"

    text = _KEPT.sub(keep, cause.replace("\0", " "))
    for pattern, by in _STEPS:
        text = pattern.sub(by, text)
    numbers = iter(kept)
    return re.sub("\0", lambda _: next(numbers), text).strip()
