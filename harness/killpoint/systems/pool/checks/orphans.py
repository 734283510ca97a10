"""The executor's end: its workers and their children are gone within 5 s (W4)."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pool.checks.deaths import LEAVES_WITHIN, left, slack
from killpoint.systems.pool.record import Life, executor_end, lives, strikes
from killpoint.verdict import Violation


def workers_gone(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """W4: whatever ended the executor, no process of its pool outlives it by more than 5 s."""
    struck = [strike for strike in strikes(history) if strike.role == "executor"]
    pools = lives(history)
    if not struck or not pools:
        raise Inconclusive("the executor of a pool was not struck")
    end = executor_end(history)
    ordered = struck[-1].intent
    if end is None:
        raise Inconclusive("the executor was not seen to end")
    late = _too_slow(scenario, history, ordered, end)
    found = [late] if late is not None else []
    for life in pools:
        found = found or left(history, life, end, "the executor had ended")
    survivors = Ledger(processes=ledger.processes)
    if not found and not survivors.empty():
        cause = f"this outlived the executor by more than 5 s: {survivors.words()}"
        shown = [*history.lines([ordered, end]), *survivors.lines()]
        found = [Violation("leak", cause, shown, of="processes")]
    if not found and not any(life.pids for life in pools):
        raise Inconclusive("no worker had shown itself when the executor ended")
    return Finding(found[:1], {"deaths": 1, "workers": sum(map(_seen, pools))})


def _seen(life: Life) -> int:
    return len(life.pids)


def _too_slow(scenario: Scenario, history: History, ordered: Event, end: Event) -> Violation | None:
    """An executor that a signal asked to end may shut its pool down first, within its graces."""
    grace = int((scenario.pool.grace if scenario.pool else 0.0) * 1e9)
    allowed = 2 * grace + LEAVES_WITHIN
    took = end.t - ordered.t
    if took <= allowed + slack(history, ordered.t, end.t):
        return None
    cause = f"the executor ended only {took / 1e9:.1f} s after it was told to; the limit is"
    cause += f" {allowed / 1e9:g} s"
    return Violation("late", cause, history.lines([ordered, end]))
