"""The command line: what is judged, played again, looked at, measured and reported.

The module of the command that is asked for is imported, and no other: all of them take a second.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from killpoint import __version__
from killpoint.arguments import say_defaults
from killpoint.entry import Parser, run


class Command(NamedTuple):
    """A command: its name, its line in the list of all, and where its parser is made."""

    name: str
    help: str
    place: str
    """"module:function" of what adds the parser to the commands."""

    def add(self, commands: Any) -> None:
        """Add its parser, with all options."""
        module, _, function = self.place.partition(":")
        add: Callable[[Any], None] = getattr(importlib.import_module(module), function)
        add(commands)
        say_defaults(commands.choices[self.name])


def _command(name: str, help: str, module: str, function: str = "add_parser") -> Command:
    return Command(name, help, f"killpoint.{module}:{function}")


COMMANDS = (
    _command(
        "check", "judge a target; print the card, write verdict.json, report.html", "cli.check"
    ),
    _command("replay", "play a scenario file: 1 reproduced, 0 held, 3 not reached", "cli.again"),
    _command(
        "recheck", "judge the stored records of a run again", "cli.again", "add_recheck_parser"
    ),
    _command("explain", "an invariant or a case: clause, needs, strength", "cli.tell"),
    _command("list", "what there is", "cli.tell", "add_list_parser"),
    _command(
        "findings",
        "root causes that are known in a release, or those behind a run's violations",
        "findings.command",
    ),
    _command(
        "show",
        "a finding: symptom, place, trigger, what shows it",
        "findings.command",
        "add_show_parser",
    ),
    _command(
        "export",
        "a finding, or a replay, as a program by itself, a pytest test, or an issue",
        "findings.export_command",
    ),
    _command(
        "inspect",
        "a running engine: who waits for whom, and the one that everybody waits for",
        "inspection.command",
    ),
    _command("bench", "measure, side by side with others", "bench.command"),
    _command(
        "report",
        "runs as one HTML file: verdicts side by side, and the play of each case",
        "report.command",
    ),
    _command(
        "diff",
        "two runs: new, changed and gone violations, what is undecided or weaker now",
        "report.diff_command",
    ),
    _command(
        "trace",
        "a recorded play on a time axis, as a file for ui.perfetto.dev or chrome://tracing",
        "report.trace_command",
    ),
    _command("matrix", "judge many targets, and set their verdicts side by side", "matrix.command"),
    _command(
        "campaign",
        "play for hours, deeper each round; interrupt and resume as you like",
        "campaign.command",
    ),
    _command(
        "bisect",
        "find the release, or the commit, that broke or fixed a case",
        "bisection.command",
    ),
    _command(
        "environment",
        "make the environment that a real engine is judged in, or list those there are",
        "systems.server.environments.command",
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status (the contract is in docs/tiers.md)."""
    words = sys.argv[1:] if arguments is None else arguments
    asked = next((word for word in words if not word.startswith("-")), "")
    return run(partial(command_line, asked), arguments)


def command_line(asked: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands; what it refuses is `BadUsage`.

    Args:
        asked: the one command that has its options; None: all have.
    """
    parser = Parser(prog="killpoint", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"killpoint {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS:
        if asked in (None, command.name):
            command.add(commands)
        else:
            commands.add_parser(command.name, help=command.help)
    return parser
