"""Durations of the cases, measured once: to share out work, and to estimate the time left."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from killpoint.case import Case
from killpoint.cases import EVERY_CASE
from killpoint.errors import BadUsage
from killpoint.verdict import CaseOutcome

SHIPPED = Path(__file__).with_name("durations.json")
"""Durations of a whole ``check`` of the reference on two cores."""
_BESIDE = 4
"""Plays at a time that were measured beside each other; a search has the machine to itself."""
_UNMEASURED = 1.0
_OF_A_SERVER = 8.0
"""Seconds of a case of a whole server, which shares its play with others; nothing is beside it."""


class Expected(msgspec.Struct, frozen=True):
    """Expected duration of a case."""

    seconds: float
    """Seconds from its begin to its end, among others of its tier."""
    cost: float
    """Seconds of the whole machine: less than ``seconds`` where others are played meanwhile."""


def expected(cases: Sequence[Case], file: Path = SHIPPED) -> dict[str, Expected]:
    """Return the expected duration of each case, by id; an unmeasured one: the median of all.

    Raises:
        BadUsage: the file is there, and holds no durations.
    """
    known = read(file)
    usual = statistics.median(known.values()) if known else _UNMEASURED
    return {case.id: _expected(case, known.get(case.id, usual)) for case in cases}


def _expected(case: Case, seconds: float) -> Expected:
    if "server" in case.needs:
        return Expected(_OF_A_SERVER, _OF_A_SERVER)
    return Expected(seconds, seconds / (_BESIDE if case.tier == "process" else 1))


def read(file: Path) -> dict[str, float]:
    """Seconds by case; none if there is no such file.

    Raises:
        BadUsage: it holds something else.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, float])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadUsage(f"{file}: {error}; expected seconds by case, as JSON") from error


def store(file: Path, outcomes: Iterable[CaseOutcome]) -> None:
    """Note what these cases took; what the file says of other cases of the catalogue stays.

    Raises:
        BadUsage: see :func:`read`.
    """
    took = {each.id: round(each.seconds, 2) for each in outcomes if each.outcome != "unsupported"}
    known: Mapping[str, float] = read(file) | took
    kept = {case.id: known[case.id] for case in EVERY_CASE if case.id in known}
    text = msgspec.json.format(msgspec.json.encode(dict(sorted(kept.items()))), indent=1)
    file.write_bytes(text + b"\n")
