"""``killpoint bench pool`` on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec

from killpoint.bench.baselines import CONTROL, NEWEST_VLLM
from killpoint.bench.pools import show
from killpoint.bench.pools.run import PoolBench, PoolOutcome, PoolPace
from killpoint.errors import BadUsage, CannotWork
from killpoint.progress.counting import Tell
from killpoint.targets.registry import FORMS, resolve

PIPES = "pipe"
_DESCRIPTION = f"""\
Measures worker pools side by side: a call that does nothing, on 2 workers, to its median; and how
soon 4 workers with torch are ready, by the target's own way to start them and by spawn. Ratios come
first. It judges nothing. Peers: any target with a pool ({FORMS}), {PIPES} (a process and a pipe for
each worker, and nothing else), {CONTROL}. docs/bench.md says how to read it.
"""


def add_parser(things: Any) -> argparse.ArgumentParser:
    """``pool`` among the things that can be measured; the caller sets its command."""
    pool: argparse.ArgumentParser = things.add_parser(
        "pool",
        help="worker pools: a call that does nothing, and the start",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    pool.add_argument("--target", default="refengine", help=FORMS)
    pool.add_argument("--against", metavar="TARGET", help=f"default: {NEWEST_VLLM}")
    pool.add_argument("--quick", action="store_true", help="fewer starts: a minute")
    pool.add_argument("--starts", type=int, metavar="N", help="fresh starts of every pool")
    pool.add_argument("--seed", type=int, default=0, help="who is first in each group")
    pool.add_argument("--json", type=Path, metavar="FILE", help="write every sample, too")
    return pool


def measure(options: argparse.Namespace, tell: Tell) -> PoolOutcome:
    """The run that was asked for."""
    pace = PoolPace(groups=2, rounds=3, starts=2) if options.quick else PoolPace()
    if options.starts:
        pace = msgspec.structs.replace(pace, groups=options.starts)
    target = resolve(options.target)
    peers, missing = [(options.target, target)], dict[str, str]()
    against: str = options.against or NEWEST_VLLM
    try:
        peers.append((against, resolve(against)))
    except (BadUsage, CannotWork) as error:
        if options.against:
            raise
        missing[against] = " ".join(str(error).split())
    peers += [(PIPES, "pool-pipe"), (CONTROL, target)]
    return PoolBench(peers, pace, options.seed, tell).run(missing)


def report(outcome: PoolOutcome, path: Path | None) -> str:
    """Write the data where it was asked for, and return the text to print."""
    if path:
        path.write_text(show.json(outcome), "utf-8")
    return show.text(outcome)
