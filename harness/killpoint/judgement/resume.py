"""A run that goes on: what was asked and each case as it ends, kept in the run's folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from killpoint.errors import BadUsage
from killpoint.verdict import CaseOutcome

_ASKED, _ENDED = "asked.json", "cases.jsonl"
_OPTIONS = ("target", "without", "only", "tier", "full", "depth", "device", "seed", "shard")
"""Options that decide which cases there are, and what each of them plays."""
_REPEATED = ("shrink", "attribution")
"""Options that a run goes on with, unless they are given anew (``None``: they are not)."""


class Ended(msgspec.Struct, frozen=True):
    """A case that has been judged."""

    outcome: CaseOutcome
    plays: int
    leaks: list[CaseOutcome] = []
    """Leaks of its plays, whatever it is that they were to show."""


class Kept:
    """The cases of one run that have ended, by id; those that end from now on are added."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / _ENDED
        self.ended = {each.outcome.id: each for each in _read(self._file)}

    def note(self, ended: Ended) -> None:
        """Keep a case; what was written of it is there whatever happens next."""
        self.ended[ended.outcome.id] = ended
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(ended) + b"\n")


def begin(folder: Path, options: argparse.Namespace) -> Kept:
    """Keep what was asked in the folder of a run that begins; or of one that is taken up again."""
    asked = {name: getattr(options, name) for name in _OPTIONS + _REPEATED}
    (folder / _ASKED).write_bytes(msgspec.json.encode(asked))
    return Kept(folder)


def taken_up(options: argparse.Namespace) -> argparse.Namespace:
    """The options of a run that is to go on: what was asked of it then, and the rest as now.

    Raises:
        BadUsage: there is no such run.
    """
    folder: Path = options.resume
    try:
        asked = msgspec.json.decode((folder / _ASKED).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise BadUsage(f"{folder}: no run that can go on: {error}") from error
    missing = [name for name in _OPTIONS if name not in asked]
    if missing:
        raise BadUsage(f"{folder / _ASKED}: does not say {', '.join(missing)}")
    asked["shard"] = tuple(asked["shard"])
    anew = {name: getattr(options, name) for name in _REPEATED}
    asked |= {name: value for name, value in anew.items() if value is not None}
    return argparse.Namespace(**vars(options) | asked)


def can_go_on(folder: Path) -> bool:
    """Return whether any case of the run in a folder has ended."""
    file = folder / _ENDED
    return file.is_file() and file.stat().st_size > 0


def _read(file: Path) -> list[Ended]:
    """Return the whole entries: of the last one a part may have been written."""
    found: list[Ended] = []
    for line in file.read_bytes().splitlines() if file.is_file() else []:
        try:
            found.append(msgspec.json.decode(line, type=Ended))
        except msgspec.DecodeError:
            continue
    return found
