"""``killpoint diff``: two runs beside each other, for people and for gates."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from killpoint.findings.registry import IMPACTS
from killpoint.report import run_folder
from killpoint.report.diff import CaseChange, Difference, diff

_MOST = 12
"""Most lines that are printed of what gates nothing; ``--json`` has all."""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "diff",
        help="two runs: new, changed and gone violations, what is undecided or weaker now",
        description="Violations are the same if their signatures are: case, kind, and cause without"
        " its numbers and paths. Where the same killpoint asked the same of the same code, byte for"
        " byte, what differs is no change of it, and is told as chance. Exit status: 1 something is"
        " violated anew; 3 something that held before is inconclusive now, or was not run; else 0.",
    )
    parser.add_argument("first", type=Path, metavar="RUN", help="folder of the run before")
    parser.add_argument("second", type=Path, metavar="RUN", help="folder of the run now")
    parser.add_argument("--json", action="store_true", help="one JSON object, whole")
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Print what differs."""
    found = diff(run_folder.read(options.first), run_folder.read(options.second))
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for line in lines(found):
            print(line)
    return found.status()


def lines(found: Difference) -> Iterator[str]:
    """The difference for people."""
    yield f"before: {found.first.target}  ({found.first.run})"
    yield f"now:    {found.second.target}  ({found.second.run})"
    yield from (f"note: {note}" for note in found.notes)
    if told := findings(found):
        yield told
    for change in (*found.new, *found.changed):
        yield f"✗ {change.id}: {change.after}, before: {change.before}"
        yield f"  {change.cause}"
        yield f"  signature {change.signature}" + (f", was {change.was}" if change.was else "")
        if change.replay:
            yield f"  killpoint replay {change.replay}"
    yield from _few([f"✓ {c.id}: holds, before: {c.before}" for c in found.gone])
    played = [c for c in found.undecided if c.after != "not run"]
    yield from _few([f"? {_undecided(c)}" for c in played])
    yield from _few([f"? {_undecided(c)}" for c in found.undecided if c.after == "not run"])
    yield from _few([f"  {c.id}: {c.after} now, before: {c.before}" for c in found.decided])
    yield from _few([f"  {v.id}: {v.before} -> {v.after}" for v in found.verdicts])
    yield from _few([f"  weaker: {s.id}: {s.before} -> {s.after}" for s in found.weaker])
    yield from _few([f"  by chance: {id}: the rates of both runs overlap" for id in found.races])
    for change in found.repeated:
        yield f"  by chance or by the machine: {_undecided(change)}"
    counts = {
        "new": len(found.new),
        "changed": len(found.changed),
        "gone": len(found.gone),
        "undecided": len(found.undecided),
        "weaker": len(found.weaker),
        "violated as before": found.still,
    }
    yield ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no difference"


def findings(found: Difference) -> str:
    """Return such as ``findings: +1 bites: deaf-reader``, and how many are fixed; empty: none."""
    parts: list[str] = []
    for impact in IMPACTS:
        rows = [row for row in found.came if row.impact == impact]
        some = [row.id if row.is_entrys else row.symptom for row in rows]
        parts += [f"+{len(some)} {impact}: {', '.join(some)}"] * bool(some)
    if found.fixed:
        gone = [row.id if row.is_entrys else row.symptom for row in found.fixed]
        parts.append(f"\N{MINUS SIGN}{len(gone)} fixed: {', '.join(gone)}")
    return f"findings: {', '.join(parts)}" if parts else ""


def _undecided(change: CaseChange) -> str:
    why = f": {change.cause}" if change.cause and change.after != "not run" else ""
    return f"{change.id}: {change.after}, before: {change.before}{why}"


def _few(told: Sequence[str]) -> Iterator[str]:
    yield from told[:_MOST]
    if len(told) > _MOST:
        yield f"  … and {len(told) - _MOST} more like it (--json tells all)"
