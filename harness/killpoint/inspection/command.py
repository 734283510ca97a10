"""``killpoint inspect``: what a person at a hanging engine types first."""

from __future__ import annotations

import argparse
import time
from typing import Any

import msgspec
from rich.console import Console

from killpoint.inspection.look import look
from killpoint.inspection.picture import Picture
from killpoint.inspection.show import show


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "inspect",
        help="a running engine: who waits for whom, and the one that everybody waits for",
        description="Looks at a process and all below it from outside. Nothing is stopped,"
        " restarted or written: it reads what the kernel tells, the flags of its rings, and its"
        " Python stacks (by py-spy). It needs the right to trace them: the same user, or root."
        " Status 0: all clear, whoever waits has a living other party; 1: somebody is to blame, and"
        " is named; 3: it cannot be told, and what cannot be seen is said; 2: no such process.",
    )
    parser.add_argument("pid", type=int, metavar="PID")
    parser.add_argument("--json", action="store_true", help="one JSON object for each look")
    parser.add_argument(
        "--watch", action="store_true", help="look again and again, and say how long nothing moved"
    )
    parser.add_argument("--all", action="store_true", help="every thread, ring and socket")
    parser.set_defaults(command=inspect)


def inspect(options: argparse.Namespace) -> int:
    """0: all clear; 1: somebody is to blame, and was named; 3: it cannot be told."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    since = Since()
    while True:
        picture = look(options.pid)
        ages = since.ages(picture, time.monotonic())
        if options.json:
            console.print(msgspec.json.encode(picture).decode())
        else:
            show(picture, console, ages, everything=options.all)
        if not options.watch:
            return status(picture)
        time.sleep(_EACH)  # the time between two looks, which nobody else can end


_EACH = 1.0


def status(picture: Picture) -> int:
    """The exit status that says what was found."""
    if picture.culprits:
        return 1
    return 3 if picture.unsure else 0


class Since:
    """For how long each ring's readers have not moved, over several looks."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[object, float]] = {}

    def ages(self, picture: Picture, now: float) -> dict[tuple[str, int], float]:
        """Seconds, by ring and reader, of those who have something to read."""
        found: dict[tuple[str, int], float] = {}
        for ring in picture.rings:
            for reader in range(ring.readers):
                behind = [(s.index, s.number) for s in ring.slots if reader in s.unread]
                kept = self._seen.get((ring.name, reader))
                if kept is None or kept[0] != behind:
                    kept = (behind, now)
                    self._seen[ring.name, reader] = kept
                if behind:
                    found[ring.name, reader] = now - kept[1]
        return found
