"""The command: mutants of areas or files are tried, and the score is printed."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from mechanical.areas import AREAS, files_of
from mechanical.changes import Change, changes
from mechanical.control import digest, remembered
from mechanical.excuses import load, stale
from mechanical.score import report, scored
from mechanical.store import Store
from mechanical.trial import Fate, try_all

EXCUSES = "tests/mutants/equivalent.toml"


def main(root: Path, arguments: Sequence[str] | None = None) -> int:
    """Status 1 below ``--least``, 2 for bad usage, 3 if nothing was tried."""
    try:
        return _run(root, _parser().parse_args(arguments))
    except BadUsage as error:
        print(error, file=sys.stderr)
        return error.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mutation.py", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="AREA|FILE", help=f"of {', '.join(AREAS)}")
    parser.add_argument("--tests", action="append", metavar="PATH", help="default: tests/impl")
    parser.add_argument("--sample", type=int, metavar="N", help="of each area, so many mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin no mutant after that")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    parser.add_argument("--store", type=Path, metavar="FILE", help="remember fates there")
    parser.add_argument("--explained", action="store_true", help="try the explained ones, too")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT", help="of each area")
    parser.add_argument("--json", action="store_true", help="print fates and scores as JSON")
    parser.add_argument("-v", action="store_true", help="a line for each mutant, as it ends")
    return parser


def _run(root: Path, options: argparse.Namespace) -> int:
    end = time.monotonic() + options.seconds if options.seconds else None
    home = root / "impl" / "refengine"
    areas = files_of(options.words, home)
    files = list(dict.fromkeys(file for each in areas.values() for file in each))
    sources = {file: (home / file).read_text("utf-8") for file in files}
    found = {file: changes(file, sources[file]) for file in files}
    excuses = load(root / EXCUSES)
    _refuse_stale(root, [excuse for excuse in excuses if excuse.file in files], found)

    def excused(change: Change) -> bool:
        return any(excuse.covers(change) for excuse in excuses) != options.explained

    todo = {file: [c for c in found[file] if not excused(c)] for file in files}
    chosen = _sampled(areas, todo, options.sample, options.seed)
    tests = options.tests or ["tests/impl"]
    control = remembered(root, home, tests, options.jobs)
    for line in control.broken:
        print(f"left out, it fails unmutated: {line}", file=sys.stderr)
    store = Store(options.store, digest([root / path for path in tests]))
    number = {id(change): nth for file in files for nth, change in enumerate(found[file])}
    fates: list[Fate] = []
    fresh: list[Change] = []
    for change in chosen:
        known = store.find(change, sources[change.file], number[id(change)])
        fates += [known] if known else []
        fresh += [] if known else [change]

    def going() -> bool:
        return end is None or time.monotonic() < end

    for change, fate in try_all(fresh, control, root, options.jobs, going):
        fates.append(fate)
        store.keep(fate, sources[change.file], number[id(change)])
        if options.v:
            print(f"{fate.word:11} {fate.seconds:5.1f} s  {change.name}  {fate.by} {fate.why}")
    tried = Counter(fate.file for fate in fates)
    explained = {file: len(found[file]) - len(todo[file]) for file in files}
    untried = {file: len(todo[file]) - tried[file] for file in files}
    scores = {
        area: scored(fate for fate in fates if fate.file in set(each))
        for area, each in areas.items()
    }
    if options.json:
        print(_json(fates, areas, explained, untried))
    else:
        print("\n".join(report(areas, fates, explained, untried)))
    if not fates:
        return 3
    return int(any(score.percent < options.least for score in scores.values()))


def _refuse_stale(root: Path, excuses: Sequence, found: dict[str, list[Change]]) -> None:
    for excuse in stale(excuses, [change for each in found.values() for change in each]):
        what = f"{excuse.file} {excuse.scope}: no change of `{excuse.old}`"
        raise BadUsage(f"{root / EXCUSES}: {what}; expected one that stands there")


def _sampled(
    areas: dict[str, list[str]], todo: dict[str, list[Change]], sample: int | None, seed: int
) -> list[Change]:
    """So many of each area, in the order of the files; all of them without a number."""
    chosen: dict[int, Change] = {}
    for files in areas.values():
        mine = [change for file in files for change in todo[file]]
        if sample is not None and sample < len(mine):
            picked = sorted(random.Random(seed).sample(range(len(mine)), sample))
            mine = [mine[index] for index in picked]
        chosen |= {id(change): change for change in mine}
    return list(chosen.values())


def _json(
    fates: list[Fate],
    areas: dict[str, list[str]],
    explained: dict[str, int],
    untried: dict[str, int],
) -> str:
    out = {"areas": {}, "mutants": msgspec.to_builtins(fates)}
    for area, files in areas.items():
        rest = [sum(counts[file] for file in files) for counts in (explained, untried)]
        score = scored((fate for fate in fates if fate.file in set(files)), *rest)
        out["areas"][area] = {
            "percent": round(score.percent, 1),
            **msgspec.to_builtins(score),
        }
    return json.dumps(out, indent=1)
