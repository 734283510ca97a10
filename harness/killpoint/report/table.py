"""Runs side by side: which target each column is, in which order, and the rows they share."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Sequence

import msgspec
from packaging.version import InvalidVersion, Version

from killpoint.invariants import CATALOGUE
from killpoint.report.run_folder import StoredRun

SIGN = {"holds": "✓", "violated": "✗", "inconclusive": "?", "unsupported": "\N{EN DASH}"}
"""A shape for each verdict, so that none needs colour."""
_WHAT = {"sglang": "its copy of vLLM 0.6.4's queue"}
"""Part of a project that is judged, where its name alone would promise more."""
LEGEND = "✓ holds, ✗ violated, ? inconclusive, \N{EN DASH} unsupported, blank: not asked"


class Column(msgspec.Struct, frozen=True):
    """A run, and the heading that distinguishes it from the others."""

    run: StoredRun
    label: str


class Row(msgspec.Struct, frozen=True):
    """An invariant, as the runs and the catalogue know it."""

    id: str
    level: str
    clause: str


def columns(runs: Sequence[StoredRun]) -> list[Column]:
    """A column for each run: targets in the order given, each one's newest version last.

    Runs of the same name and version are distinguished by seed, then by date, then by number.
    """
    first = {run.target.name: n for n, run in reversed(list(enumerate(runs)))}
    ordered = sorted(runs, key=lambda run: (first[run.target.name], _version(run), date(run)))
    labels = [_label(run) for run in ordered]
    for more in (
        [f"seed {run.seed}" for run in ordered],
        [date(run) for run in ordered],
        [f"#{n}" for n in range(1, len(ordered) + 1)],
    ):
        labels = _told_apart(labels, more)
    return [Column(run, label) for run, label in zip(ordered, labels, strict=True)]


def _label(run: StoredRun) -> str:
    what = _WHAT.get(run.target.name)
    return f"{run.target.name} {run.target.version}" + (f" ({what})" if what else "")


def rows(runs: Sequence[StoredRun]) -> list[Row]:
    """Return every invariant of the runs: MUST before SHOULD, in the order of the catalogue.

    Invariants that the catalogue does not have any more come last of their level, without a clause.
    """
    level = {id: verdict.level for run in runs for id, verdict in run.invariants.items()}
    clauses = {item.id: item.clause for item in CATALOGUE}
    known = [id for id in clauses if id in level]
    unknown = [id for id in level if id not in clauses]
    found = [Row(id, level[id], clauses.get(id, "")) for id in [*known, *unknown]]
    return sorted(found, key=lambda row: row.level != "MUST")


def date(run: StoredRun) -> str:
    """Return when a run began, by its folder's name, as ``YYYY-MM-DD HH:MM:SS``; or was written."""
    stamp = re.match(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)-", run.folder.resolve().name)
    if stamp:
        return "{}-{}-{} {}:{}:{}".format(*stamp.groups())
    try:
        written = (run.folder / "verdict.json").stat().st_mtime
    except OSError:
        return ""
    return datetime.datetime.fromtimestamp(written).isoformat(" ", "seconds")


def _version(run: StoredRun) -> tuple[bool, Version, str]:
    """Sorts versions; what is none (a working tree) comes after the releases, by its text."""
    try:
        return False, Version(run.target.version), ""
    except InvalidVersion:
        return True, Version("0"), run.target.version


def _told_apart(labels: list[str], more: list[str]) -> list[str]:
    """Return the labels; equal ones get a distinguishing addition, if there is one."""
    often = Counter(labels)
    variants = {label: set[str]() for label in labels}
    for label, extra in zip(labels, more, strict=True):
        variants[label].add(extra)
    return [
        f"{label}, {extra}" if often[label] > 1 and len(variants[label]) > 1 else label
        for label, extra in zip(labels, more, strict=True)
    ]
