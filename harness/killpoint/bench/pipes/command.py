"""``killpoint bench pipe`` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from killpoint.bench.baselines import CONTROL
from killpoint.bench.pipes import show
from killpoint.bench.pipes.run import PipeBench, PipeOutcome, PipePace
from killpoint.bench.workload import parse_size
from killpoint.errors import BadUsage, CannotWork
from killpoint.progress.counting import Tell
from killpoint.targets.registry import FORMS, resolve

SOCKET = "socket"
LAST_VLLM = "vllm==0.12.0"
"""The last release that has such a pipe."""
_DESCRIPTION = f"""\
Measures pipes side by side: a tensor on the CPU from one process to another, from the send until
the other end has it and has said so. Ratios come first. It judges nothing. Peers: any target with a
pipe ({FORMS}), {SOCKET} (the same bytes over a plain loopback connection), {CONTROL}.
docs/bench.md says how to read it.
"""


def add_parser(things: Any) -> argparse.ArgumentParser:
    """``pipe`` among the things that can be measured; the caller sets its command."""
    pipe: argparse.ArgumentParser = things.add_parser(
        "pipe",
        help="KV-transfer pipes: a large tensor from rank to rank",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    pipe.add_argument("--target", default="refengine", help=FORMS)
    pipe.add_argument("--against", metavar="TARGET", help=f"default: {LAST_VLLM}")
    pipe.add_argument("--size", type=_size, metavar="SIZE", help="of the tensor; default: 64MiB")
    pipe.add_argument("--quick", action="store_true", help="fewer starts: half a minute")
    pipe.add_argument("--starts", type=int, metavar="N", help="fresh starts of every pipe")
    pipe.add_argument("--seed", type=int, default=0, help="who is first in each group")
    pipe.add_argument("--json", type=Path, metavar="FILE", help="write every sample, too")
    return pipe


def measure(options: argparse.Namespace, tell: Tell) -> PipeOutcome:
    """The run that was asked for."""
    pace = PipePace(groups=2, rounds=3, trips=6) if options.quick else PipePace()
    if options.starts:
        pace = msgspec.structs.replace(pace, groups=options.starts)
    if options.size:
        pace = msgspec.structs.replace(pace, nbytes=options.size)
    target = resolve(options.target)
    peers, missing = [(options.target, target)], dict[str, str]()
    against: str = options.against or LAST_VLLM
    try:
        peers.append((against, resolve(against)))
    except (BadUsage, CannotWork) as error:
        if options.against:
            raise
        missing[against] = " ".join(str(error).split())
    peers += [(SOCKET, "pipe-socket"), (CONTROL, target)]
    return PipeBench(peers, pace, options.seed, tell).run(missing)


def report(outcome: PipeOutcome, path: Path | None) -> str:
    """Write the data where it was asked for, and return the text to print."""
    if path:
        path.write_text(show.json(outcome), "utf-8")
    return show.text(outcome)


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
