"""verdict.json: the judgement for scripts, as docs/findings.md and docs/ci.md describe it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from killpoint.findings.rows import rows
from killpoint.judgement.judge import Judgement
from killpoint.report.run_folder import NEWEST, StoredRun
from killpoint.report.same_code import judge_digest, target_digest
from killpoint.verdict import Rate


def as_dict(judgement: Judgement) -> dict[str, Any]:
    """The judgement as plain data; extra keys may come, those named here stay."""
    found = rows(case for verdict in judgement.verdicts for case in verdict.cases)
    return {
        "schema": NEWEST,
        "target": {
            "name": judgement.name,
            "version": judgement.version,
            "code": target_digest(judgement.spec, judgement.files),
        },
        "judge": judge_digest(),
        "notes": judgement.notes,
        "seed": judgement.seed,
        "device": judgement.device,
        "depth": judgement.depth,
        "full": judgement.full,
        "seconds": judgement.seconds,
        "left_out": judgement.left_out,
        "findings": [msgspec.to_builtins(row) for row in found],
        "invariants": {
            verdict.id: {
                "level": verdict.level,
                "verdict": verdict.verdict,
                "strength": verdict.strength,
                "cases": [
                    {
                        "id": case.id,
                        "outcome": case.outcome,
                        "by_machine": case.by_machine,
                        "by_harness": case.by_harness,
                        "kind": case.kind,
                        "level": case.level,
                        "cause": case.cause,
                        "beyond": case.beyond,
                        "evidence": case.evidence,
                        "replay": case.replay,
                        "violations": [msgspec.to_builtins(v) for v in case.violations],
                        "unconfirmed": case.unconfirmed,
                        "shrunk": case.shrunk,
                        "shrinkage": case.shrinkage,
                        "runs": case.runs,
                        "struck": case.struck,
                        "counts": case.counts,
                        "searched": case.searched,
                        "measured": case.measured,
                        "rates": [_rate(rate) for rate in case.rates],
                        "seconds": case.seconds,
                    }
                    for case in verdict.cases
                ],
            }
            for verdict in judgement.verdicts
        },
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "what": rate.what,
        "of": rate.of,
        "hits": rate.hits,
        "trials": rate.trials,
        "low": round(rate.low, 6),
        "high": round(rate.high, 6),
    }


def text(judgement: Judgement) -> str:
    """The judgement as JSON text."""
    return json.dumps(as_dict(judgement), indent=2, ensure_ascii=False) + "\n"


def write(judgement: Judgement, folder: Path) -> Path:
    """Write ``verdict.json`` into the run's folder; its path."""
    path = folder / "verdict.json"
    path.write_text(text(judgement), "utf-8")
    return path


def keep_findings(run: StoredRun) -> None:
    """Write whose each violation is into the file that a run was read from.

    All else in it stays as it is.
    """
    file = run.folder / "verdict.json"
    told = json.loads(file.read_text("utf-8"))
    cases = [case for verdict in told["invariants"].values() for case in verdict["cases"]]
    for case, known in zip(cases, run.cases(), strict=True):
        for violation, settled in zip(case.get("violations", []), known.violations, strict=True):
            violation["finding"], violation["how"] = settled.finding, settled.how
    told["findings"] = [msgspec.to_builtins(row) for row in rows(run.cases())]
    new = file.with_suffix(".new")
    new.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", "utf-8")
    new.replace(file)
