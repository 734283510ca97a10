"""`killpoint check`: a target is judged, its card printed, and the run kept in a folder."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, get_args

from rich.console import Console

from killpoint.arguments import jobs, names, seconds, seconds_or_none
from killpoint.case import Case
from killpoint.durations import Expected, expected, store
from killpoint.findings.attribution import Attribution, without
from killpoint.findings.rows import unattributed
from killpoint.judgement.judge import Judgement, judge, plan
from killpoint.judgement.resume import Kept, begin, can_go_on, taken_up
from killpoint.progress.display import Watcher, watching
from killpoint.progress.progress_state import Score
from killpoint.report import check_outputs, verdict_json
from killpoint.report.card import print_card
from killpoint.report.html import document
from killpoint.report.run_folder import read
from killpoint.review.command import add_option as add_base_option
from killpoint.review.command import perform, refuse
from killpoint.scenario import Depth
from killpoint.sigterm import ending_on_sigterm
from killpoint.systems.server.plays import plan as server_plan
from killpoint.targets.registry import FORMS, is_server, resolve
from killpoint.targets.shapes import Device
from killpoint.verdict import counted

_SETTLED = 2
"""Violations that are attributed at a time for each core: most of a play is waiting."""
_SHRINK = 10.0
"""Seconds: enough for some fifty plays of a case that fails at once."""


def add_parser(commands: Any) -> None:
    """Add the command."""
    check = commands.add_parser(
        "check", help="judge a target; print the card, write verdict.json, report.html"
    )
    check.set_defaults(command=_check)
    check.add_argument("--target", default="refengine", help=FORMS)
    check.add_argument(
        "--without",
        type=names,
        action="extend",
        metavar="FINDING,…",
        help="take these findings' bugs out of the target's code as it is loaded; known: all that"
        " there are. What is violated still is another one's",
    )
    check.add_argument(
        "--only", type=names, action="extend", metavar="ID[/CASE],…", help="invariants or cases"
    )
    check.add_argument("--tier", choices=["process", "simulated", "model"], help="only cases of it")
    check.add_argument("--full", action="store_true", help="every point, larger samples")
    check.add_argument(
        "--depth", choices=get_args(Depth), default="line", help="how fine the sweeps' points are"
    )
    check.add_argument(
        "--device", choices=get_args(Device), default="cpu", help="where a pool's workers run"
    )
    check.add_argument("--seed", type=int, default=0, help="what samples are drawn by")
    check.add_argument(
        "--budget",
        type=seconds,
        metavar="SECONDS",
        help="what has not been begun by then is left out (default: no limit)",
    )
    check.add_argument(
        "--first", action="store_true", help="no further case of an invariant that is violated"
    )
    check.add_argument(
        "--shrink",
        type=seconds_or_none,
        metavar="SECONDS",
        help="for each violation, to look for a smaller scenario"
        f" (default {_SHRINK:g}, of a whole server 0; 0: off)",
    )
    check.add_argument(
        "--attribution",
        action=argparse.BooleanOptionalAction,
        help="play each violation again with and without known bugs, and say which finding it"
        " belongs to; of a target without known findings each is new (docs/findings.md). Of a whole"
        " server that takes minutes each: unless it is asked for, words alone decide",
    )
    check.add_argument(
        "--shard",
        type=_shard,
        default=(1, 1),
        metavar="I/N",
        help="one of N parts that take about as long as each other, by measured durations"
        " (default: 1/1, everything)",
    )
    check.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with a run that was interrupted, or whose budget was over: its folder. What it"
        " was asked is asked again, and no case that has ended is played again",
    )
    check.add_argument(
        "--store-durations",
        type=Path,
        metavar="FILE",
        help="note there how long each case took (durations.json of this package is such a file)",
    )
    check.add_argument("--jobs", type=jobs, help="plays at a time (default: six for each core)")
    check.add_argument(
        "--out",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="where the run's folder is made",
    )
    check.add_argument("--json", action="store_true", help="print verdict.json, not the card")
    add_base_option(check)
    check_outputs.add_options(check)


def _shard(text: str) -> tuple[int, int]:
    part, _, whole = text.partition("/")
    if not (part.isdigit() and whole.isdigit() and 1 <= int(part) <= int(whole)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with 1 <= I <= N")
    return int(part), int(whole)


def _check(options: argparse.Namespace) -> int:
    if options.base is not None:
        return _review(options)
    options = taken_up(options) if options.resume is not None else options
    outlets, beside = check_outputs.Outlets(options), sys.stderr if options.json else sys.stdout
    planned = plan(
        options.only or (),
        shard=options.shard,
        tier=options.tier,
        server=is_server(options.target),
        full=options.full,
    )
    if options.resume is not None:
        ended = Kept(options.resume).ended
        planned = [case for case in planned if case.id not in ended]
    durations = _durations(options.target, planned, full=options.full)
    watched = watching(Console(stderr=True), Score(durations))
    target, began = without(options.target, options.without or ()), time.monotonic()
    with (
        ending_on_sigterm(),
        outlets.or_why_not(beside),
        _run_folder(options.out, options.target, options.resume) as folder,
        watched as watcher,
    ):
        judgement = judge(
            target,
            options.only or (),
            seed=options.seed,
            full=options.full,
            budget=options.budget,
            folder=folder,
            jobs=options.jobs,
            shard=options.shard,
            tier=options.tier,
            device=options.device,
            depth=options.depth,
            progress=watcher.ended,
            told=watcher.told,
            shrinking=_shrinking(options.shrink, target),
            first=options.first,
            kept=begin(folder, options),
        )
        verdict_json.write(judgement, folder)
        if options.attribution is not False:
            end = began + options.budget if options.budget is not None else None
            try:
                plays = options.attribution is not None or not is_server(target)
                _attribute(judgement, target, options.jobs, end, watcher, plays=plays)
            finally:
                verdict_json.write(judgement, folder)
    if options.store_durations is not None:
        store(options.store_durations, (case for v in judgement.verdicts for case in v.cases))
    if options.json:
        print(verdict_json.text(judgement), end="")
    else:
        print_card(judgement, Console(), str(folder))
    _write_report(folder)
    return outlets.leave(folder, beside)


def _shrinking(asked: float | None, target: str) -> float:
    """Seconds for each violation; none, unless asked for, where a play takes longer than that."""
    if asked is not None:
        return asked
    return 0.0 if is_server(target) else _SHRINK


def _durations(target: str, planned: Sequence[Case], *, full: bool) -> dict[str, Expected]:
    """Return how long each case is expected to take; tell the user what a whole server is asked."""
    if not is_server(target):
        return expected(planned)
    resolved = resolve(target)
    sentence = server_plan.told(resolved, planned, full=full)
    if sentence:
        print(sentence, file=sys.stderr, flush=True)
    return server_plan.expected(resolved, planned, full=full)


def _review(options: argparse.Namespace) -> int:
    refuse(options)
    outlets, beside = check_outputs.Outlets(options), sys.stderr if options.json else sys.stdout
    planned = plan(options.only or (), tier=options.tier)
    with (
        outlets.or_why_not(beside),
        _run_folder(options.out, options.target, None) as folder,
        watching(Console(stderr=True), Score(expected(planned))) as watcher,
    ):
        return perform(options, folder, watcher)


def _attribute(
    judgement: Judgement,
    target: str,
    jobs: int | None,
    end: float | None,
    watcher: Watcher,
    *,
    plays: bool,
) -> None:
    """Say of each violation which finding it belongs to."""
    cases = [case for verdict in judgement.verdicts for case in verdict.cases]
    began = time.monotonic()
    if left := unattributed(cases):
        with Attribution(target, watcher.say, plays=plays) as attribution:
            if attribution.plays:
                watcher.say(f"{counted(left, 'violations')}: which finding each belongs to")
            attribution.of_cases(cases, jobs or _SETTLED * (os.cpu_count() or 1), end)
    judgement.seconds = round(judgement.seconds + time.monotonic() - began, 1)


def _write_report(folder: Path) -> None:
    """Write the HTML report; one that cannot be written takes nothing from the verdict."""
    try:
        document.beside(read(folder))
    except Exception as error:
        print(f"report.html was not written: {type(error).__name__}: {error}", file=sys.stderr)


@contextlib.contextmanager
def _run_folder(out: Path, target: str, again: Path | None) -> Generator[Path]:
    """A folder for this run, which is removed if nothing was judged; or that of an earlier one."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    name = "".join(c if c.isalnum() or c in ".-=" else "-" for c in target).strip("-")
    made = [parent for parent in (out, *out.parents) if not parent.exists()]
    folder = again or out / f"{stamp}-{name[:40]}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=again is not None)
    try:
        yield folder
    except BaseException:
        if (folder / "verdict.json").is_file():
            print(f"what was judged before that is in {folder}", file=sys.stderr)
            raise
        if can_go_on(folder):
            print(f"it goes on with: killpoint check --resume {folder}", file=sys.stderr)
            raise
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
        for parent in made:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise
