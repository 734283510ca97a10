"""Leaks: what a play left behind (L1)."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, evidence
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.verdict import Violation


def check_l1_nothing_left(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """L1: nothing remains, unless SIGKILL took every party and no start has followed."""
    ends = list(history.of("exit"))
    if not ends and ledger.empty():
        raise Inconclusive("nobody was seen to end")
    excused = ledger.all_killed and not scenario.restart
    if ledger.empty() or excused:
        return Finding([], {"plays": 1})
    how = ", ".join(
        f"{e.text('target')} by signal {e.number('signal')}"
        for e in ends
        if e.number("signal", 0) > 0
    )
    after = f"after the death of {how}" if how else "after a clean end of every party"
    cause = f"{after}, this was left: {ledger.words()}"
    shown = [*evidence(history, ends), *ledger.lines()]
    return Finding([Violation("leak", cause, shown)], {"plays": 1})
