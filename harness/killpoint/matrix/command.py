"""The command line of ``killpoint matrix``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from killpoint.arguments import jobs, names, seconds, seconds_or_none
from killpoint.cases import select
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID
from killpoint.matrix.result_row import CheckOptions
from killpoint.matrix.run import Plan, run
from killpoint.matrix.select_targets import COLUMNS, LANDMARKS, targets
from killpoint.sigterm import ending_on_sigterm
from killpoint.targets.registry import FORMS

_BUDGET = 3600.0
_SHRINK = 5.0
_DESCRIPTION = f"""\
Judges one target after the other, and sets their verdicts side by side. What was played stays
below DIR: begun again with the same options, the matrix goes on with the target at which it was
interrupted. Its columns are kept beside the page, too, where another machine, or another day,
finds them: a column that is there and was asked the same is not played again, and those of other
targets stay in the page. Of each release it says which findings were carried over from the one
before, which are gone, and which are new. By default: the reference, vLLM {", ".join(COLUMNS)} (and
the newest, if it is newer), and SGLang's newest; a column takes about an hour on two cores.
--releases {len(LANDMARKS)} is every release of vLLM since {next(iter(LANDMARKS))} at which the
judged code changed. Every case is asked, so that a bug which keeps an invariant violated does not
hide that another one was fixed.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "matrix",
        help="judge many targets, and set their verdicts side by side",
        description=_DESCRIPTION,
        epilog="Exit status: 0 every target was judged, and every violation reproduced where"
        " --confirm asks for it; 2 bad usage; 3 a replay reproduced nothing; 70 a target could not"
        " be judged.",
    )
    parser.set_defaults(command=command)
    parser.add_argument("--targets", type=names, metavar="SPEC,…", help=FORMS)
    parser.add_argument(
        "--releases",
        metavar="N|PROJECT:FIRST..[LAST]",
        help="so many of the releases at which the code changed, or all of a range (vllm:0.8..)",
    )
    parser.add_argument("--only", type=names, action="extend", default=[], metavar="ID[/CASE],…")
    parser.add_argument("--full", action="store_true", help="every point, larger samples")
    parser.add_argument(
        "--first", action="store_true", help="no further case of an invariant that is violated"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--budget",
        type=seconds,
        default=_BUDGET,
        metavar="SECONDS",
        help=f"for each target, after which no further case is begun (default {_BUDGET:g})",
    )
    parser.add_argument(
        "--shrink",
        type=seconds_or_none,
        default=_SHRINK,
        metavar="SECONDS",
        help=f"for each violation, to look for a smaller scenario (default {_SHRINK:g}; 0: off)",
    )
    parser.add_argument("--jobs", type=jobs, metavar="N", help="plays at a time")
    parser.add_argument("--out", type=Path, default=Path("runs", "matrix"), metavar="DIR")
    parser.add_argument("--again", action="store_true", help="play what is there already, too")
    parser.add_argument(
        "--renew",
        type=names,
        default=[],
        metavar="ID,…",
        help="of targets that were played: the cases of these invariants once more, such as after"
        " one of them was mended",
    )
    parser.add_argument(
        "--drop",
        action="store_true",
        help="take the page's other columns away (default: they stay)",
    )
    parser.add_argument(
        "--attribution",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="after each target, play its violations again with and without known bugs, however"
        " long that takes, and say which finding each belongs to",
    )
    parser.add_argument(
        "--confirm",
        action="store_true",
        help="after all, play each violation's replay once more",
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE.md",
        help="the page (default: DIR/matrix.md); its columns' data, cells and replays go into a"
        " folder beside it",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE.html",
        help="the columns that lie below DIR with the plays of their cells, for a browser"
        " (default: DIR/matrix.html)",
    )


def command(options: argparse.Namespace) -> int:
    """Play what is not there yet, confirm if asked to, and write the page and the report."""
    select(options.only)
    for id in options.renew:
        if id not in BY_ID:
            raise BadUsage(
                f"--renew {id}: no such invariant; expected ids such as {next(iter(BY_ID))}"
            )
    file: Path = options.markdown or options.out / "matrix.md"
    if file.suffix != ".md":
        raise BadUsage(f"--markdown {file}: expected a file whose name ends in .md")
    plan = Plan(
        targets(options.targets, options.releases),
        CheckOptions(
            tuple(options.only),
            options.budget,
            options.seed,
            options.full,
            options.shrink,
            first=options.first,
        ),
        options.out,
        file,
        options.confirm,
        options.again,
        options.drop,
        options.attribution,
        options.jobs,
        tuple(options.renew),
        options.report,
    )
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    with ending_on_sigterm():
        return run(plan, console.print)
