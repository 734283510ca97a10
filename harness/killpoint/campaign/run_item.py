"""An item played on a stage: what came out, and all that is to be kept of it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import msgspec

from killpoint.campaign import examples
from killpoint.campaign.work_order import (
    Found,
    ItemReach,
    Target,
    WorkOrder,
    WorkResult,
    failed,
)
from killpoint.cases import select
from killpoint.judgement.replay import play_once
from killpoint.runner.stage import Stage
from killpoint.scenario import Scenario, dump
from killpoint.scenario.file import load, parse
from killpoint.search.case_run import CaseRun
from killpoint.search.reach import Reach
from killpoint.search.shrink.shrinker import shrink
from killpoint.verdict import CaseOutcome

_EVERY_PLAY = "L1/every-play"
_LARGEST = 4 << 20
"""Bytes of a record's file that is kept."""


def play(order: WorkOrder, stage: Stage) -> WorkResult:
    """Judge its case, or confirm and shrink its finding."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=stage.root, prefix="item-") as name:
        work = _shrink if order.item.shrinks else _judge
        try:
            played = work(order, stage, Path(name))
        except Exception as error:
            # Whatever it is, it is ours: it must look neither like a verdict nor like the end.
            played = failed(order.item, f"{type(error).__name__}: {error}")
    played.seconds = round(time.monotonic() - began, 3)
    loaded = stage.zygote.loaded
    played.target = Target(loaded.name, loaded.version, loaded.notes)
    return played


def _judge(order: WorkOrder, stage: Stage, folder: Path) -> WorkResult:
    item = order.item
    (case,) = select([item.case])
    known = Path(order.examples) if order.examples else folder / "examples"
    examples.unpack(order.sent or {}, known)
    reach = Reach(order.reach, steers=item.round > 0) if order.reach is not None else None
    case_run = CaseRun(
        case.id,
        stage,
        seed=item.seed,
        full=item.full,
        folder=folder,
        target=order.target,
        depth=item.depth,
        device=order.device,
        examples=known,
        confirms=True,
        summary=case.summary,
        reach=reach,
    )
    outcome = case_run.judge(case.run, case.needs - set(stage.zygote.loaded.capabilities))
    word = "infrastructure" if outcome.by_harness else outcome.outcome
    played = WorkResult(item.key, word, outcome.cause or "; ".join(outcome.unconfirmed))
    played.plays, played.swept = case_run.plays, case_run.swept
    if outcome.outcome == "violated":
        played.found.append(_found(outcome, folder))
    for leak in case_run.leaks[:1]:
        said = CaseOutcome(_EVERY_PLAY, "L1", "violated", runs=1)
        said.add(leak.violation, leak.replay)
        played.found.append(_found(said, folder, judge="L1"))
    if reach is not None and reach.added.plays:
        found = stage.lines.outlines(reach.added.lines)
        played.reached = ItemReach(reach.added, found, stage.lines.others)
    if order.sent is not None:
        played.examples = examples.pack(known)
    return played


def _found(outcome: CaseOutcome, folder: Path, judge: str = "") -> Found:
    """The violation with its replay file and record; ``judge``: who convicted, if not the case."""
    text, record = "", dict[str, bytes]()
    if outcome.replay is not None:
        replay = Path(outcome.replay)
        scenario = load(replay)
        if judge:
            scenario = msgspec.structs.replace(scenario, judges=[judge])
        text = dump(scenario) if judge else replay.read_text("utf-8")
        for path in sorted((folder / "plays" / replay.stem).glob("*")):
            if path.is_file() and path.stat().st_size <= _LARGEST:
                record[path.name] = path.read_bytes()
    return Found(outcome, text, record)


def _shrink(order: WorkOrder, stage: Stage, folder: Path) -> WorkResult:
    scenario = parse(order.scenario, order.item.shrinks)
    again = play_once(stage, scenario, order.target)
    played = WorkResult(order.item.key, again.ending, again.outcomes[0].cause, plays=1)
    if again.ending != "reproduced" or order.convicted is None or not _real(scenario):
        return played
    replay = folder / "scenario.toml"
    replay.write_text(order.scenario, "utf-8")
    order.convicted.replay = str(replay)
    shrink(order.convicted, scenario, stage, order.seconds, target=order.target)
    played.shrinkage = order.convicted.shrinkage
    if order.convicted.shrunk is not None:
        played.shrunk = Path(order.convicted.shrunk).read_text("utf-8")
    return played


def _real(scenario: Scenario) -> bool:
    """Return whether processes play it.

    A simulated finding is a list of choices, shrunk when found.
    """
    return scenario.simulated is scenario.orders is scenario.wakes is None
