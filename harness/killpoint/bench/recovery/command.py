"""``killpoint bench recovery`` on the command line."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from killpoint.bench.recovery import plot, show
from killpoint.bench.recovery.faults import BY_NAME, chosen
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


def run(options: argparse.Namespace, tell: Tell) -> Recovery:
    """The run that was asked for.

    Raises:
        BadUsage: there is no such fault, or a target is no server.
    """
    rows = chosen(options.faults.split(",") if options.faults else None)
    if options.rounds < 1:
        raise BadUsage(f"--rounds {options.rounds}; expected at least 1")
    servers: list[tuple[Server, str]] = []
    for spec in options.target or ["serve:refengine"]:
        if not spec.startswith(PREFIX):
            raise BadUsage(f"target {spec}: no server; expected {PREFIX} and {FORMS}")
        resolved = resolve(spec)
        program = build(resolved).server_program()
        servers.append((Server(spec, program.name, program.version, list(program.notes)), resolved))
    return measure(servers, rows, options.rounds, options.seed, tell)


def report(outcome: Recovery, options: argparse.Namespace) -> str:
    """What is printed; files that were asked for are written."""
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
