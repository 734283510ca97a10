"""``killpoint trace``: a recorded play for Perfetto."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from killpoint.report import trace


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "trace",
        help="a recorded play on a time axis, as a file for ui.perfetto.dev or chrome://tracing",
        description="Each role is a process of the trace; orders and calls are its spans, messages"
        " are arrows, faults, hangs and exits are marks, what was measured is a counter.",
    )
    parser.add_argument("play", type=Path, metavar="PLAY", help="RUN/plays/CASE")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="default: trace.json in the play's folder"
    )
    parser.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Write the file, and say where."""
    play: Path = options.play
    file: Path = options.out or play / "trace.json"
    made = trace.read(play)
    file.write_text(trace.text(made), "utf-8")
    print(f"{file}: {len(made.trace_events)} events")
    return 0
