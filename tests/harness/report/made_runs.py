"""Stored runs made of outcomes, without playing anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from killpoint.invariants import BY_ID
from killpoint.judgement.judge import Judgement
from killpoint.report import verdict_json
from killpoint.report.run_folder import StoredRun, read
from killpoint.verdict import CaseOutcome, CaseViolation, combine


def case(id: str, outcome: Any = "held", **more: Any) -> CaseOutcome:
    """An outcome; it took a run unless told otherwise."""
    more.setdefault("runs", int(outcome in ("held", "violated")))
    return CaseOutcome(id, id.split("/")[0], outcome, **more)


def hang(
    id: str, cause: str = "reader-0 still waited after 4.0 s in get (…/q.py:7)"
) -> CaseOutcome:
    """A violation with all that is told of one."""
    replay = f"runs/x/replays/{id.replace('/', '-')}.toml"
    told = {"kind": "hang", "cause": cause, "replay": replay, "evidence": ["1 ms writer <sent>"]}
    return case(id, "violated", **told)


def judgement(
    *cases: CaseOutcome,
    target: str = "own",
    version: str = "1.5",
    left_out: tuple[str, ...] = (),
    lacking: tuple[str, ...] = (),
    **more: Any,
) -> Judgement:
    """A run of these cases, combined as ``judge`` does for a part of each invariant's."""
    ids = dict.fromkeys(id.split("/")[0] for id in (*(each.id for each in cases), *left_out))
    verdicts = [
        combine(
            BY_ID[id],
            [each for each in cases if each.invariant == id],
            lacking,
            whole=False,
            left_out=sum(each.split("/")[0] == id for each in left_out),
        )
        for id in ids
    ]
    left = list(left_out)
    return Judgement(target, version, ["a note"], 4, "cpu", False, verdicts, 1.5, left, **more)


def stored(folder: Path, *cases: CaseOutcome, **more: Any) -> StoredRun:
    """The same in a folder, read back."""
    folder.mkdir(parents=True, exist_ok=True)
    verdict_json.write(judgement(*cases, **more), folder)
    return read(folder)


def found(id: str, *whose: str | None, how: str = "its switch-off ends it") -> CaseOutcome:
    """A case with a violation of each of these findings."""
    outcome = hang(id)
    for finding in whose:
        told = CaseViolation("hang", outcome.cause, replay=outcome.replay, finding=finding, how=how)
        outcome.violations.append(told)
    return outcome
