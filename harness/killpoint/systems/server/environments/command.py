"""The command line of ``killpoint environment``: make what an engine runs in, ahead of a play."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from rich.console import Console

from killpoint.errors import BadUsage
from killpoint.sigterm import ending_on_sigterm
from killpoint.systems.server.environments import FORMS, made, releases, store

_OFFLINE = "KILLPOINT_OFFLINE"
_DESCRIPTION = """\
Makes the environment of a real engine in the cache, so that no play has to: size and time are told
first, then the progress. One that is there is only described. docs/environments.md has the rest.
"""


def add_parser(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "environment",
        help="make the environment that a real engine is judged in, or list those there are",
        description=_DESCRIPTION,
        epilog="Exit status: 0 it is there; 2 no such engine, with the reason; 70 it cannot be made"
        " here.",
    )
    parser.set_defaults(command=command)
    parser.add_argument("spec", nargs="?", metavar="ENGINE", help=FORMS)
    parser.add_argument("--list", action="store_true", help="what is there, and what can be made")
    parser.add_argument("--offline", action="store_true", help=f"fetch nothing; so does {_OFFLINE}")


def command(options: argparse.Namespace) -> int:
    """Make one, or list all."""
    if options.list == (options.spec is not None):
        raise BadUsage("killpoint environment: name an engine, or say --list")
    out = Console(soft_wrap=True, highlight=False, markup=False)
    if options.list:
        _list(out)
        return 0
    steps = Console(file=sys.stderr, soft_wrap=True, highlight=False, markup=False)
    with ending_on_sigterm():
        found = made(options.spec, options.offline or _is_offline(), steps.print)
    for environment in found:
        out.print(_line(environment))
    if not found:
        out.print(f"{options.spec} is an environment of yours, and is used as it lies")
    return 0


def _is_offline() -> bool:
    return os.environ.get(_OFFLINE, "") not in ("", "0")


def _list(out: Console) -> None:
    environments = store.every()
    out.print(f"in {store.folder()}:" if environments else f"none in {store.folder()}")
    for environment in environments:
        out.print(f"  {_line(environment)}")
    out.print(f"can be made: {', '.join(releases())}")


def _line(environment: store.Environment) -> str:
    record = environment.record
    took = f"{record.bytes / 1e9:.2f} GB, made in {record.seconds:.0f} s"
    return f"{record.name}: {took}, {environment.home}"
