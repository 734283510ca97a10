"""Judging the stored records of a run again, without playing anything."""

from __future__ import annotations

from pathlib import Path

import msgspec

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Inconclusive
from killpoint.errors import BadUsage
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import load
from killpoint.verdict import CaseOutcome


def recheck(run: Path) -> list[CaseOutcome]:
    """The outcome of each play kept in a run's folder, judged by today's checkers.

    Raises:
        BadUsage: the folder holds no run.
    """
    plays = sorted((run / "plays").glob("*/scenario.toml"))
    if not plays:
        raise BadUsage(f"{run}: no plays are kept there; expected the folder of a run")
    return [outcome for scenario in plays for outcome in _one(scenario.parent)]


def _one(folder: Path) -> list[CaseOutcome]:
    scenario = load(folder / "scenario.toml")
    history = History.read(folder)
    ledger = msgspec.json.decode((folder / "ledger.json").read_bytes(), type=Ledger)
    outcomes: list[CaseOutcome] = []
    ids = ["L1"] if folder.name.startswith("L1-in-") else scenario.judges
    for id in ids:
        outcome = CaseOutcome(f"{id}/{folder.name}", id, "held", runs=1)
        outcomes.append(outcome)
        if history.first("not-reached"):
            outcome.outcome, outcome.cause = "inconclusive", "its point was not reached"
            continue
        try:
            finding = CHECKERS[id](scenario, history, ledger)
        except Inconclusive as doubt:
            outcome.outcome, outcome.cause = "inconclusive", str(doubt)
            continue
        for violation in finding.violations[:1]:
            outcome.outcome, outcome.kind = "violated", violation.kind
            outcome.cause, outcome.evidence = violation.cause, violation.evidence
    return outcomes
