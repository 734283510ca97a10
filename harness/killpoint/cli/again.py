"""`killpoint replay` and `recheck`: what was played is played, or judged, again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from killpoint.judgement.rejudge import rejudge_run
from killpoint.judgement.replay import replay
from killpoint.targets.registry import FORMS


def add_parser(commands: Any) -> None:
    """Add `replay`."""
    again = commands.add_parser(
        "replay", help="play a scenario file: 1 reproduced, 0 held, 3 not reached"
    )
    again.set_defaults(command=_replay)
    again.add_argument("file", type=Path)
    again.add_argument("--target", help=f"instead of the file's own: {FORMS}")


def add_recheck_parser(commands: Any) -> None:
    """Add `recheck`."""
    rejudge = commands.add_parser("recheck", help="judge the stored records of a run again")
    rejudge.set_defaults(command=_recheck)
    rejudge.add_argument("run", type=Path)


def _replay(options: argparse.Namespace) -> int:
    replayed = replay(options.file, options.target)
    for outcome in replayed.outcomes:
        kind = f" ({outcome.kind})" if outcome.kind else ""
        print(
            f"{outcome.id}: {outcome.outcome}{kind}"
            + (f": {outcome.cause}" if outcome.cause else "")
        )
        for line in outcome.evidence:
            print(f"    {line}")
    print(replayed.ending)
    return replayed.status()


def _recheck(options: argparse.Namespace) -> int:
    outcomes = rejudge_run(options.run)
    for outcome in outcomes:
        print(f"{outcome.id}: {outcome.outcome}" + (f": {outcome.cause}" if outcome.cause else ""))
    words = {outcome.outcome for outcome in outcomes}
    return 1 if "violated" in words else 3 if "inconclusive" in words else 0
