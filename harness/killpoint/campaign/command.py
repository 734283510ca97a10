"""``killpoint campaign``: cases for hours, on this machine or on a Ray cluster."""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import signal
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, get_args

from rich.console import Console

from killpoint.arguments import jobs, names
from killpoint.campaign import duration, settings
from killpoint.campaign.findings import Findings
from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.journal import Journal
from killpoint.campaign.progress import telling
from killpoint.campaign.run import Campaign
from killpoint.campaign.settings import Settings
from killpoint.campaign.summary import print_summary, status
from killpoint.campaign.worker_pool import LocalPool, WorkerPool
from killpoint.durations import expected
from killpoint.errors import BadUsage
from killpoint.runner.observe.gpus import require
from killpoint.targets.registry import FORMS, is_server, resolve
from killpoint.targets.shapes import Device

_FIXED = ("target", "only", "tier", "device", "seed")
"""Options that say what is played."""
_FREE = ("jobs", "ray")
"""Options that say who plays it."""
_OFF = "off"
_ATTRIBUTES_WITHIN, _ATTRIBUTES_PART = 300.0, 20
"""Seconds after a session in which its findings are attributed to root causes, and the part of the
session that this may be if that is longer; what is left is attributed after the next session."""
_DESCRIPTION = """\
Plays every case once, as check does, then gives each invariant its share of the time and goes
deeper with each round: other seeds, full strength, sweeps by opcode. What is violated is kept
once for each signature, shrunk, and written as a scenario file. Drawn programs that run lines of
the target which few others have run are kept and mutated; what none has reached is told. Status:
1 something was found, 0 nothing, 3 nothing was judged, 130 or 143 interrupted. docs/campaigns.md
says more.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser(
        "campaign",
        help="play for hours, deeper each round; interrupt and resume as you like",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=campaign)
    parser.add_argument("--budget", type=_budget, metavar="TIME", help="8h, 90m, 1h30m, 45s")
    parser.add_argument("--target", help=f"default: refengine; {FORMS}")
    parser.add_argument(
        "--only", type=names, action="extend", metavar="ID[/CASE],…", help="invariants or cases"
    )
    parser.add_argument(
        "--tier", choices=["process", "simulated", "model"], help="only cases of it"
    )
    parser.add_argument(
        "--device", choices=get_args(Device), help="where a pool's workers run (default: cpu)"
    )
    parser.add_argument("--seed", type=int, help="default: 0")
    parser.add_argument("--jobs", type=jobs, help="items at a time (default: two for each core)")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="an existing Ray cluster plays: auto, HOST:PORT; off"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="its folder (default: a new one in campaigns/)"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with it, for --budget or what was left"
    )
    parser.add_argument("--status", type=Path, metavar="DIR", help="what has come of it so far")


def campaign(options: argparse.Namespace) -> int:
    """Begin a campaign, resume one, or show the status of one."""
    if options.status is not None:
        return _tell(options.status)
    if options.resume is not None:
        return _resume(options)
    if options.budget is None:
        raise BadUsage("killpoint campaign: --budget TIME is missing; expected such as 8h or 90m")
    asked = {name: getattr(options, name) for name in (*_FIXED, *_FREE)}
    chosen = Settings(**{name: value for name, value in asked.items() if value is not None})
    chosen.cases()
    resolve(chosen.target)
    if chosen.ray == _OFF:
        chosen.ray = None
    folder: Path = options.out or _new_folder(chosen.target)
    settings.create(folder, chosen)
    return _play(folder, chosen, options.budget)


def _resume(options: argparse.Namespace) -> int:
    """Resume a campaign: what is played stays as it was begun, and who plays may change."""
    for name in (*_FIXED, "out"):
        if getattr(options, name) is not None:
            raise BadUsage(f"--{name}: a campaign that is resumed keeps its own; expected none")
    chosen = settings.load(options.resume)
    chosen.jobs = options.jobs or chosen.jobs
    chosen.ray = options.ray or chosen.ray
    if options.ray == _OFF:
        chosen.ray = None
    return _play(options.resume, chosen, options.budget)


def _tell(folder: Path) -> int:
    chosen = settings.load(folder)
    past = CampaignHistory(settings.entries_of(folder))
    found = Findings(folder / "findings").all()
    print_summary(chosen, past, found, Console(), folder)
    return status(past, found)


def _play(folder: Path, chosen: Settings, budget: float | None) -> int:
    console = Console(stderr=True)
    with settings.owned(folder):
        past = CampaignHistory(settings.entries_of(folder), expected(chosen.cases()))
        seconds = budget if budget is not None else past.budget - past.spent
        if seconds <= 0:
            raise BadUsage(f"{folder}: its budget is spent; expected --budget TIME for more")
        with (
            closing(_worker_pool(chosen)) as pool,
            Journal(settings.journal_of(folder)) as journal,
            telling(console) as tell,
            _stopped() as stopped,
        ):
            session = Campaign(folder, chosen, pool, journal, past, tell)
            why = session.play(os.getpid(), seconds, stopped)
        findings = Findings(folder / "findings")
        if not stopped():
            end = time.monotonic() + max(_ATTRIBUTES_WITHIN, seconds / _ATTRIBUTES_PART)
            findings.attribute(chosen.target, end, partial(console.print, markup=False))
        found = findings.all()
        print_summary(chosen, past, found, Console(), folder)
        console.print(f"{why}; campaign: {folder}", markup=False, highlight=False, soft_wrap=True)
        if by := stopped():
            again = f"killpoint campaign --resume {shlex.quote(str(folder))}"
            console.print(f"to go on: {again}", markup=False, highlight=False, soft_wrap=True)
            return 128 + (signal.SIGTERM if "SIGTERM" in by else signal.SIGINT)
        return status(past, found)


def _worker_pool(chosen: Settings) -> WorkerPool:
    resolve(chosen.target)
    if chosen.ray is not None:
        from killpoint.campaign.ray_cluster import Cluster

        return Cluster(chosen.ray, chosen.jobs)
    require(chosen.device)
    jobs = chosen.jobs or 2 * (os.cpu_count() or 1)
    return LocalPool(chosen.target, chosen.device, 1 if is_server(chosen.target) else jobs)


@contextmanager
def _stopped() -> Generator[Callable[[], str]]:
    """Record stop signals; yield a function that returns the first one, in words, or nothing."""
    asked: list[str] = []

    def note(number: int, _frame: FrameType | None) -> None:
        asked.append(f"stopped by {signal.Signals(number).name}")

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked[0] if asked else ""
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _new_folder(target: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = "".join(c if c.isalnum() or c in ".-=" else "-" for c in target).strip("-")
    return Path("campaigns") / f"{stamp}-{name[:40]}-{os.getpid()}"


def _budget(text: str) -> float:
    try:
        return duration.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time above 0; expected such as 8h, 90m, 1h30m or 45s"
        ) from None
