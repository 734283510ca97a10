"""Times as a person writes and reads them: ``8h``, ``90m``, ``1h30m``, ``45s``."""

from __future__ import annotations

import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_FORM = re.compile(r"(?:\d+(?:\.\d+)?[hms])+")


def parse(text: str) -> float:
    """Seconds; a plain number is seconds, too.

    Raises:
        ValueError: the text is no time above 0.
    """
    word = text.strip().lower()
    if re.fullmatch(r"\d+(?:\.\d+)?", word):
        word += "s"
    if not _FORM.fullmatch(word):
        raise ValueError(text)
    seconds = sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"([\d.]+)([hms])", word))
    if seconds <= 0:
        raise ValueError(text)
    return seconds


def show(seconds: float) -> str:
    """The two largest units: ``7 h 59 min``, ``3 min 20 s``, ``4 s``."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
