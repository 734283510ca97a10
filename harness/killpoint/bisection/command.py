"""The command line of ``killpoint bisect``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from killpoint.bisection import commits, releases
from killpoint.bisection.probe import question
from killpoint.bisection.run import bisect
from killpoint.sigterm import ending_on_sigterm
from killpoint.targets.published import PROJECTS

_DESCRIPTION = """\
Finds the release that broke a case, or the one that fixed it: either end may be the older one.
With --tree, the commit. Both ends are verified first. What cannot be judged is skipped, and its
nearest neighbours are tried; if that hides the change, the answer is a range.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "bisect",
        help="find the release, or the commit, that broke or fixed a case",
        description=_DESCRIPTION,
        epilog="Exit status: 0 found; 2 bad usage, or the ends do not differ; 3 only a range could"
        " be found, or an end could not be judged; 70 killpoint could not do its work.",
    )
    parser.set_defaults(command=command)
    what = f"{' or '.join(f'{each}==X.Y.Z' for each in PROJECTS)}; with --tree, a commit"
    parser.add_argument("--good", required=True, metavar="A", help=f"where it holds: {what}")
    parser.add_argument("--bad", required=True, metavar="B", help="where it is violated")
    parser.add_argument("--project", choices=PROJECTS, help="of releases X.Y.Z, or of the tree")
    parser.add_argument("--tree", type=Path, metavar="PATH", help="a git working tree")
    parser.add_argument("--json", action="store_true", help="print the answer and all tried")
    parser.add_argument(
        "what",
        metavar="FILE",
        help="a scenario file, a case (ID/CASE), or a finding, whose best exhibit is asked",
    )


def command(options: argparse.Namespace) -> int:
    """Search, and print the answer."""
    asked = question(options.what)
    ends = options.good, options.bad
    if options.tree is None:
        line, good_is_older = releases.between(*ends, options.project)
    else:
        line, good_is_older = commits.between(options.tree, *ends, options.project)
    out = Console(soft_wrap=True, highlight=False, markup=False)
    steps = Console(file=sys.stderr, soft_wrap=True, highlight=False, markup=False)
    with ending_on_sigterm():
        found = bisect(
            asked,
            line,
            good_is_older=good_is_older,
            tell=(steps if options.json else out).print,
        )
    if options.json:
        out.print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        out.print(found.sentence)
    return found.status()
