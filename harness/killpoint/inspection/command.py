"""``killpoint inspect``: what a person at a hanging engine types first."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from killpoint.errors import BadUsage
from killpoint.inspection import bundle
from killpoint.inspection.collect import look
from killpoint.inspection.model import Picture
from killpoint.inspection.render import show
from killpoint.runner.processes.priority import ahead


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
    parser.add_argument(
        "what", metavar="PID|FILE", help="a running process, or a file that --bundle has written"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each look")
    parser.add_argument(
        "--watch", action="store_true", help="look again and again, and say how long nothing moved"
    )
    parser.add_argument(
        "--every",
        type=_seconds,
        default=_EACH,
        metavar="SECONDS",
        help=f"with --watch: the time between two looks (default: {_EACH:g})",
    )
    parser.add_argument("--all", action="store_true", help="every thread, ring and socket")
    parser.add_argument(
        "--bundle",
        type=Path,
        metavar="FILE",
        help="write what was seen, without tokens, keys and prompts, to be read elsewhere with"
        " `killpoint inspect FILE`",
    )
    parser.add_argument(
        "--bundle-on-hang",
        type=Path,
        metavar="FILE",
        help="with --watch: once somebody is to blame in two looks one after another, write the"
        " bundle, and end",
    )
    parser.set_defaults(command=inspect)


def inspect(options: argparse.Namespace) -> int:
    """Inspect; return 0 if all is clear, 1 if a culprit was named, 3 if it cannot be told."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if options.bundle_on_hang is not None and not options.watch:
        raise BadUsage("--bundle-on-hang waits for a hang; expected --watch beside it")
    if not options.what.isdigit():
        return _read(Path(options.what), options, console)
    since, blamed = Since(), 0
    while True:
        with ahead(children=True):
            picture = look(int(options.what))
        ages = since.ages(picture, time.monotonic())
        _tell(picture, ages, options, console)
        if options.bundle is not None:
            _keep(picture, options.bundle)
        blamed = blamed + 1 if picture.culprits else 0
        enough = _BLAMED if status(picture) == 1 else _BLAMED_IN_DOUBT
        if options.bundle_on_hang is not None and blamed >= enough:
            _keep(picture, options.bundle_on_hang)
            return status(picture)
        if not options.watch:
            return status(picture)
        time.sleep(options.every)  # the time between two looks, which nobody else can end


def _read(file: Path, options: argparse.Namespace, console: Console) -> int:
    """Show a look that was taken elsewhere."""
    if options.watch or options.bundle is not None:
        raise BadUsage("--watch and --bundle look at a process; expected a PID beside them")
    found = bundle.read(file)
    if not options.json:
        console.print(bundle.head(found))
        for line in found.missing:
            console.print(f"not seen there: {line}")
    _tell(found.picture, {}, options, console)
    return status(found.picture)


def _tell(
    picture: Picture,
    ages: dict[tuple[str, int], float],
    options: argparse.Namespace,
    console: Console,
) -> None:
    if options.json:
        console.print(msgspec.json.encode(picture).decode())
    else:
        show(picture, console, ages, everything=options.all)


def _keep(picture: Picture, file: Path) -> None:
    bundle.write(bundle.bundle(picture), file)
    told = f"what was seen is in {file}: killpoint inspect {file}"
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(told)


_BLAMED = 2
"""Looks that blame a party, one after another: what is busy for a moment is no hang."""
_BLAMED_IN_DOUBT = 20
"""The same where it may be a long step."""
_EACH = 1.0


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}; expected seconds, such as 0.5")
    return value


def status(picture: Picture) -> int:
    """The exit status that says what was found."""
    if any(not culprit.doubt for culprit in picture.culprits):
        return 1
    return 3 if picture.unsure or picture.culprits else 0


class Since:
    """Times for which each ring's readers have not moved, over several looks."""

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
