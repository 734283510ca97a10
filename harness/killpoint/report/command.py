"""``killpoint report``: the page of one run, or of several side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from killpoint.errors import BadUsage
from killpoint.report import run_folder
from killpoint.report.html.document import write


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "report",
        help="runs as one HTML file: verdicts side by side, and the play of each case",
        description="One file that loads nothing. A run judged on another machine or day is as good"
        " as any: only its folder is read.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="where to (default: report.html in the run's folder; here, for several runs)",
    )
    parser.set_defaults(command=report)


def report(options: argparse.Namespace) -> int:
    """Write the report, and print its path, its size, and what was left out."""
    runs = [run_folder.read(run) for run in options.runs]
    beside = runs[0].folder if len(runs) == 1 else Path()
    out: Path = options.out or beside / "report.html"
    if out.is_dir() or not out.parent.is_dir():
        raise BadUsage(f"{out}: is no place for a file; expected one in a folder that exists")
    written = write(runs, out)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"{written.path}: {written.size / 1e6:.2f} MB")
    for cut in written.cuts:
        console.print(f"  {cut}")
    return 0
