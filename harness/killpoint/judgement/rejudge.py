"""Judging the stored records of a run again, without playing anything."""

from __future__ import annotations

from pathlib import Path

import msgspec

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding, Inconclusive, Lacking
from killpoint.errors import BadUsage
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario, load
from killpoint.search.play_evidence import unexpected
from killpoint.verdict import CaseOutcome


def rejudge_run(run: Path) -> list[CaseOutcome]:
    """The outcome of each play kept in a run's folder, judged by today's checkers.

    Raises:
        BadUsage: the folder holds no run, or a damaged one, or one that nothing here judges.
    """
    plays = sorted((run / "plays").glob("*/scenario.toml"))
    if not plays:
        raise BadUsage(f"{run}: no plays are kept there; expected the folder of a run")
    return [outcome for scenario in plays for outcome in _one(scenario.parent)]


def _one(folder: Path) -> list[CaseOutcome]:
    file = folder / "scenario.toml"
    scenario = load(file)
    history = _history(folder)
    ledger = _ledger(folder / "ledger.json")
    leaked = folder.name.startswith("L1-in-")
    outcomes: list[CaseOutcome] = []
    for id in ["L1"] if leaked else scenario.judges:
        if id not in CHECKERS:
            raise BadUsage(f"{file}: no judge for {id!r}; expected: {', '.join(CHECKERS)}")
        name = scenario.case if scenario.case.startswith(f"{id}/") else f"{id}/{scenario.case}"
        outcome = CaseOutcome(f"L1/in/{scenario.case}" if leaked else name, id, "held", runs=1)
        outcomes.append(outcome)
        try:
            finding = _judged(id, scenario, history, ledger)
        except Inconclusive as doubt:
            word = "unsupported" if isinstance(doubt, Lacking) else "inconclusive"
            outcome.outcome, outcome.cause = word, str(doubt)
            continue
        for violation in finding.violations[:1]:
            outcome.add(violation)
    return outcomes


def _judged(id: str, scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """Return the judge's finding, if the play was one that can be judged."""
    if history.first("not-reached"):
        raise Inconclusive("its point was not reached")
    for event in history.of("exit"):
        if unexpected(scenario, event):
            who = event.text("target")
            raise Inconclusive(f"{who} ended with status {event.number('code')}")
    try:
        return CHECKERS[id](scenario, history, ledger)
    except Inconclusive:
        raise
    except Exception as broken:
        # As in a case run: a judge that fails has judged nothing.
        why = f"the judge itself failed: {type(broken).__name__}: {broken}"
        raise Inconclusive(why) from broken


def _history(folder: Path) -> History:
    try:
        history = History.read(folder)
    except OSError as error:
        raise BadUsage(f"{folder}: cannot be read: {error}; expected a play's record") from error
    for place in history.damaged:
        raise BadUsage(f"{place}: not an event; expected a line as a role wrote it")
    return history


def _ledger(file: Path) -> Ledger:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Ledger)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadUsage(f"{file}: {error}; expected what a play left behind") from error
