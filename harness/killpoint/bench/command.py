"""The command line of ``killpoint bench``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from rich.console import Console

from killpoint.bench import show
from killpoint.bench.baselines import DEFAULT, NEWEST_VLLM, OTHERS, opponents
from killpoint.bench.hangs import command as hangs
from killpoint.bench.pipes import command as pipes
from killpoint.bench.plan import FULL, QUICK, READERS, ROWS, Row, plan
from killpoint.bench.pools import command as pools
from killpoint.bench.recovery import command as recovery
from killpoint.bench.run import Bench
from killpoint.bench.workload import KINDS, SIZES, Kind, parse_size, show_size
from killpoint.errors import CannotWork
from killpoint.progress.counting import counting
from killpoint.sigterm import ending_on_sigterm
from killpoint.targets.registry import FORMS

_DESCRIPTION = f"""\
Measures message queues side by side, in the same minutes, and prints how many times as good the
target is as each peer, with an interval, before any figure. It judges nothing: the status is 0 if
all that was asked for was measured, 70 if not. docs/bench.md says how to read it.
Rows: {", ".join(ROWS)}. Peers: any target ({FORMS}), {", ".join(OTHERS)}.
"""


def add_parser(commands: Any) -> None:
    """``bench queue`` among the commands of the command line."""
    bench = commands.add_parser("bench", help="measure, side by side with others")
    things = bench.add_subparsers(required=True, metavar="WHAT")
    queue = things.add_parser(
        "queue",
        help="message queues: round trip, throughput, wake-up, processor time",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    queue.set_defaults(command=command)
    queue.add_argument("--target", default="refengine", help=FORMS)
    queue.add_argument("--against", metavar="TARGET", help=f"default: {NEWEST_VLLM}")
    queue.add_argument(
        "--peers",
        type=_words(None),
        metavar="NAME,…",
        help=f"who is beside them; default: {', '.join(DEFAULT[1:])}; none for nobody",
    )
    queue.add_argument("--rows", type=_words(ROWS), default=list(ROWS), metavar="ROW,…")
    queue.add_argument("--payloads", type=_words(KINDS), default=list(KINDS), metavar="KIND,…")
    queue.add_argument(
        "--sizes",
        type=_sizes,
        metavar="SIZE,…",
        help="default: " + ", ".join(show_size(size) for size in SIZES),
    )
    queue.add_argument(
        "--readers",
        type=_numbers,
        metavar="N,…",
        help="default: " + ", ".join(map(str, READERS)),
    )
    queue.add_argument("--quick", action="store_true", help="few sizes, shorter samples: 90 s")
    queue.add_argument(
        "--starts",
        type=int,
        metavar="N",
        help=f"fresh starts of each cell, for a narrower interval; default: {FULL.groups}",
    )
    queue.add_argument("--seed", type=int, default=0, help="who is first in each group")
    queue.add_argument("--json", type=Path, metavar="FILE", help="write every sample, too")
    pools.add_parser(things).set_defaults(command=pool_command)
    pipes.add_parser(things).set_defaults(command=pipe_command)
    recovery.add_parser(things).set_defaults(command=recovery_command)
    recovery.add_reach_parser(things).set_defaults(command=reach_command)
    hangs.add_parser(things).set_defaults(command=hangs_command)


def command(options: argparse.Namespace) -> int:
    """Measure and print."""
    peers: list[str] | None = options.peers
    asked = [*([options.against] if options.against else []), *(peers or [])]
    names = [options.against or NEWEST_VLLM, *(DEFAULT[1:] if peers is None else peers)]
    found, missing = opponents(options.target, list(dict.fromkeys(names)), asked)
    rows, kinds = cast("list[Row]", options.rows), cast("list[Kind]", options.payloads)
    cells = plan(rows, kinds, options.sizes, options.readers, quick=options.quick)
    with ending_on_sigterm(), counting(Console(stderr=True)) as tell:
        pace = QUICK if options.quick else FULL
        if options.starts:
            pace = msgspec.structs.replace(pace, groups=options.starts)
        bench = Bench(found, pace, options.seed, tell)
        outcome = bench.run(cells, missing)
    print(show.text(outcome))
    if options.json:
        options.json.write_text(show.json(outcome), "utf-8")
    if failures := outcome.failures():
        raise CannotWork(f"{len(failures)} not measured; the first: {failures[0]}")
    return 0


def pool_command(options: argparse.Namespace) -> int:
    """Measure worker pools, and print."""
    with ending_on_sigterm(), counting(Console(stderr=True)) as tell:
        outcome = pools.measure(options, tell)
    print(pools.report(outcome, options.json))
    if failures := outcome.failures():
        raise CannotWork(f"{len(failures)} not measured; the first: {failures[0]}")
    return 0


def recovery_command(options: argparse.Namespace) -> int:
    """Measure what faults do to whole servers, and print."""
    with ending_on_sigterm(), counting(Console(stderr=True)) as tell:
        outcome = recovery.run(options, tell)
    print(recovery.report(outcome, options))
    if failures := outcome.failures():
        raise CannotWork(f"{len(failures)} not measured; the first: {failures[0]}")
    return 0


def pipe_command(options: argparse.Namespace) -> int:
    """Measure pipes, and print."""
    with ending_on_sigterm(), counting(Console(stderr=True)) as tell:
        outcome = pipes.measure(options, tell)
    print(pipes.report(outcome, options.json))
    if failures := outcome.failures():
        raise CannotWork(f"{len(failures)} not measured; the first: {failures[0]}")
    return 0


def _words(known: Sequence[str] | None) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        if known is None:
            return [] if words == ["none"] else words
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(known)}")
        if not words:
            raise argparse.ArgumentTypeError(f"names nothing; expected some of {', '.join(known)}")
        return words

    return parse


def _sizes(text: str) -> list[int]:
    try:
        return [parse_size(word) for word in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _numbers(text: str) -> list[int]:
    words = text.split(",")
    if not all(word.strip().isdecimal() and 1 <= int(word) <= 64 for word in words):
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers from 1 to 64")
    return [int(word) for word in words]


def reach_command(options: argparse.Namespace) -> int:
    """Play known bugs in whole engines, and print."""
    with ending_on_sigterm(), counting(Console(stderr=True)) as tell:
        print(recovery.reach(options, tell))
    return 0


def hangs_command(options: argparse.Namespace) -> int:
    """Score looks at servers that hang, and print."""
    with ending_on_sigterm(), counting(Console(stderr=True)) as tell:
        outcome = hangs.run(options, tell)
    print(hangs.report(outcome, options))
    if failures := outcome.failures():
        raise CannotWork(f"{len(failures)} not looked at; the first: {failures[0]}")
    return 0
