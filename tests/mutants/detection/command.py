"""The command: mutants are searched for with each method, and the page is written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mutant_table import MUTANTS

from detection.found import Found, Row
from detection.methods import SIMULATED, by_cases, by_random_killing, by_sweep, sweeps_of
from detection.table import METHODS, load, merged, save, write_page

REFERENCE = "refengine"
"""The row of the unbroken reference."""


def main(root: Path, arguments: Sequence[str] | None = None) -> int:
    """Status 1 if a method finds something in the unbroken reference."""
    options = _parser().parse_args(arguments)
    rows = known()
    names = options.mutants or list(rows)
    for name in names:
        if name not in rows:
            print(f"no mutant {name!r}; expected one of: {', '.join(rows)}")
            return 2
    page = root / "docs" / "detection.md" if options.page is None else options.page
    data = page.with_suffix(".json")
    wrong = False
    for name in names:
        row = Row(name, rows[name])
        for method in (m for m in options.methods if _applies(m, row, options)):
            row.found[method] = _search(method, row, options)
            print(f"{name}: {METHODS[method]}: {row.found[method]}", flush=True)
        wrong |= name == REFERENCE and any(found.kind for found in row.found.values())
        save(data, merged(load(data), [row]))
    write_page(page, list(rows))
    return int(wrong)


def known() -> dict[str, str]:
    """The rows of the table, each with the case that is meant to catch it."""
    return {REFERENCE: ""} | {mutant.name: mutant.caught_by for mutant in MUTANTS}


def _applies(method: str, row: Row, options: argparse.Namespace) -> bool:
    if method == "simulation":  # nothing of a group or a pool is simulated
        return bool(options.simulation) and row.case[:1] not in ("G", "W")
    return method != "case" or bool(row.case)


def _search(method: str, row: Row, options: argparse.Namespace) -> Found:
    target = REFERENCE if row.mutant == REFERENCE else f"mutated:{row.mutant}"
    if method == "random":
        return by_random_killing(target, options.seconds, options.seed, row.case)
    if method == "sweep":
        ids = options.sweep or sweeps_of(row.case)
        return by_sweep(target, ids, options.seed, options.limit)
    if method == "case":
        return by_cases(target, [row.case], options.seed)
    return by_cases(target, options.simulation, options.seed, options.limit)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="detection.py", description=__doc__)
    parser.add_argument("mutants", nargs="*", help=f"default: all, and {REFERENCE}")
    parser.add_argument(
        "--methods", type=_words, default=list(METHODS), help=f"of {','.join(METHODS)}"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of random killing, each")
    parser.add_argument(
        "--limit",
        type=float,
        default=30.0,
        help="seconds after which a sweep or a simulation begins no further case",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sweep", type=_words, metavar="ID[/CASE],…", help="default: the mutant's")
    parser.add_argument("--simulation", type=_words, default=list(SIMULATED), metavar="ID,…")
    parser.add_argument("--page", type=Path, help="instead of docs/detection.md")
    return parser


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]
