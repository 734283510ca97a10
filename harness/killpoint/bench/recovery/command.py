"""``killpoint bench recovery`` on the command line."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from killpoint.bench.recovery import plot, reach_show, show
from killpoint.bench.recovery.faults import BY_NAME, chosen
from killpoint.bench.recovery.reach import BY_FINDING, measure_reach
from killpoint.bench.recovery.reach import chosen as chosen_reaches
from killpoint.bench.recovery.run import Recovery, Server, measure
from killpoint.errors import BadUsage
from killpoint.progress.counting import Tell
from killpoint.systems.server.target import FORMS, PREFIX, build
from killpoint.targets.registry import resolve

_DESCRIPTION = f"""\
Does each fault to each server in the midst of twelve answers, and measures what comes of it: until
when nobody could know, how the requests in flight ended, for how long their streams stood still,
until when as much text came as before, and what was left. It judges nothing.
Faults: {", ".join(BY_NAME)}. Servers: {PREFIX} and {FORMS}. docs/bench.md says how to read it.
"""


def add_parser(things: Any) -> argparse.ArgumentParser:
    """``recovery`` among the things that can be measured; the caller sets its command."""
    recovery: argparse.ArgumentParser = things.add_parser(
        "recovery",
        help="whole servers: what faults cost clients, and for how long",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    recovery.add_argument(
        "--target",
        action="append",
        metavar="SERVER",
        help="a server; once for each that is to stand beside the others; default: serve:refengine",
    )
    recovery.add_argument("--faults", metavar="NAME,…", help="default: all")
    recovery.add_argument("--rounds", type=int, default=1, metavar="N", help="of every fault")
    recovery.add_argument("--seed", type=int, default=0, help="of what clients do by chance")
    recovery.add_argument("--json", type=Path, metavar="FILE", help="write all of it, too")
    recovery.add_argument("--markdown", type=Path, metavar="FILE", help="write the truth table")
    recovery.add_argument("--plot", type=Path, metavar="FILE", help="write a picture, as SVG")
    return recovery


_REACH = f"""\
Plays, for each known bug of an engine's parts, the event that sets it off, on the whole engine
under load, and tells what clients got, what became of the server, and what was left. It judges
nothing.
Findings: {", ".join(BY_FINDING)}. docs/reach.md has a run.
"""


def add_reach_parser(things: Any) -> argparse.ArgumentParser:
    """``reach`` among the things that can be measured; the caller sets its command."""
    parser: argparse.ArgumentParser = things.add_parser(
        "reach",
        help="known bugs of an engine's parts: how far they reach in the whole engine",
        description=_REACH,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--target", action="append", metavar="SERVER", required=True)
    parser.add_argument("--findings", metavar="ID,…", help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="of what clients do by chance")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all of it, too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the page")
    return parser


def reach(options: argparse.Namespace, tell: Tell) -> str:
    """Measure the reach, write the files that were asked for, and return the text to print.

    Raises:
        BadUsage: a finding has no play, or a target is no server.
    """
    reaches = chosen_reaches(options.findings.split(",") if options.findings else None)
    targets = servers(options.target)
    found = measure_reach(targets, reaches, options.seed, tell)
    told = [server for server, _ in targets]
    if options.json:
        options.json.write_text(reach_show.json(found, told), "utf-8")
    if options.markdown:
        words = [
            "killpoint",
            "bench",
            "reach",
            *(w for t in options.target for w in ("--target", t)),
        ]
        words += ["--markdown", str(options.markdown)]
        options.markdown.write_text(reach_show.markdown(found, told, shlex.join(words)), "utf-8")
    return reach_show.text(found)


def run(options: argparse.Namespace, tell: Tell) -> Recovery:
    """The run that was asked for.

    Raises:
        BadUsage: there is no such fault, or a target is no server.
    """
    rows = chosen(options.faults.split(",") if options.faults else None)
    if options.rounds < 1:
        raise BadUsage(f"--rounds {options.rounds}; expected at least 1")
    targets = servers(options.target)
    return measure(targets, rows, options.rounds, options.seed, tell)


def servers(specs: list[str] | None) -> list[tuple[Server, str]]:
    """The servers that were asked for, each with its resolved spec; None: the reference's.

    Raises:
        BadUsage: one is no server.
    """
    found: list[tuple[Server, str]] = []
    for spec in specs or ["serve:refengine"]:
        if not spec.startswith(PREFIX):
            raise BadUsage(f"target {spec}: no server; expected {PREFIX} and {FORMS}")
        resolved = resolve(spec)
        program = build(resolved).server_program()
        found.append((Server(spec, program.name, program.version, list(program.notes)), resolved))
    return found


def report(outcome: Recovery, options: argparse.Namespace) -> str:
    """Write the files that were asked for, and return the text to print."""
    if options.json:
        options.json.write_text(show.json(outcome), "utf-8")
    if options.markdown:
        options.markdown.write_text(show.markdown(outcome, _again(options)), "utf-8")
    if options.plot:
        options.plot.write_text(plot.svg(outcome), "utf-8")
    return show.text(outcome)


def _again(options: argparse.Namespace) -> str:
    """The command that makes the table."""
    targets = options.target or ["serve:refengine"]
    words = ["killpoint", "bench", "recovery", *(w for t in targets for w in ("--target", t))]
    words += ["--faults", options.faults] if options.faults else []
    words += ["--markdown", str(options.markdown)]
    return shlex.join(words)
