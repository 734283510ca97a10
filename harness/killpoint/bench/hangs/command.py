"""``killpoint bench inspect`` on the command line."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from killpoint.bench.hangs import show
from killpoint.bench.hangs.kinds import BY_NAME, chosen
from killpoint.bench.hangs.run import Score, score
from killpoint.bench.recovery.command import servers
from killpoint.errors import BadUsage
from killpoint.progress.counting import Tell
from killpoint.systems.server.target import FORMS, PREFIX

_DESCRIPTION = f"""\
Puts each kind of hang into each server, under load, and counts how often the first line of
`killpoint inspect` names the process that hangs; and how often it blames anybody in trees that
serve.
Kinds: {", ".join(BY_NAME)}. Servers: {PREFIX} and {FORMS}. docs/bench.md says how to read it.
"""


def add_parser(things: Any) -> argparse.ArgumentParser:
    """``inspect`` among the things that can be measured; the caller sets its command."""
    parser: argparse.ArgumentParser = things.add_parser(
        "inspect",
        help="killpoint inspect itself: how often it names the process that hangs",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--target",
        action="append",
        metavar="SERVER",
        help="a server; once for each that is to be looked at; default: serve:refengine",
    )
    parser.add_argument("--kinds", metavar="NAME,…", help="default: all; none: healthy trees alone")
    parser.add_argument(
        "--each", type=int, default=15, metavar="N", help="hangs of each kind on each server"
    )
    parser.add_argument(
        "--healthy", type=int, default=1000, metavar="N", help="looks at trees that do not hang"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what clients do by chance")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it, too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page")
    return parser


def run(options: argparse.Namespace, tell: Tell) -> Score:
    """The run that was asked for.

    Raises:
        BadUsage: there is no such kind, or a target is no server.
    """
    named = None if options.kinds is None else options.kinds.split(",")
    kinds = [] if named == ["none"] else chosen(named)
    for name in ("each", "healthy"):
        if getattr(options, name) < 0:
            raise BadUsage(f"--{name} {getattr(options, name)}; expected at least 0")
    targets = servers(options.target)
    return score(targets, kinds, options.each, options.healthy, options.seed, tell)


def report(outcome: Score, options: argparse.Namespace) -> str:
    """Write the files that were asked for, and return the text to print."""
    if options.json:
        options.json.write_text(show.json(outcome), "utf-8")
    if options.markdown:
        options.markdown.write_text(show.markdown(outcome, _again(options)), "utf-8")
    return show.text(outcome)


def _again(options: argparse.Namespace) -> str:
    """The command that makes the page."""
    targets = options.target or ["serve:refengine"]
    words = ["killpoint", "bench", "inspect", *(w for t in targets for w in ("--target", t))]
    words += ["--kinds", options.kinds] if options.kinds else []
    words += ["--each", str(options.each), "--healthy", str(options.healthy)]
    return shlex.join([*words, "--markdown", str(options.markdown)])
