"""Judges of worker pools by what a scenario expects: each ending of the kill matrix (W3 to W10)."""

from __future__ import annotations

import signal
from collections.abc import Callable

from killpoint.checkers.finding import Checker, Finding, Inconclusive, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pool.checks.deaths import Death, check_death_is_told, deaths, disobeyed
from killpoint.systems.pool.checks.errors import (
    call_fails,
    call_or_pool_fails,
    raised,
    start_fails,
    start_undone,
)
from killpoint.systems.pool.checks.lifecycle import next_pool, next_works, own_ends_alone
from killpoint.systems.pool.checks.orphans import workers_gone
from killpoint.systems.pool.checks.stalls import deadline_kept, stops_in_time, unaffected
from killpoint.systems.pool.kill_matrix import Ending
from killpoint.systems.pool.record import Life, ends, lives, strikes
from killpoint.verdict import Violation

Judge = Callable[[Scenario, History, Life], list[Violation]]


def _pool_fails(_scenario: Scenario, history: History, life: Life) -> list[Violation]:
    found = disobeyed(history, life)
    dead = deaths(history, life)
    if not found and not dead:
        raise Inconclusive("no worker was seen dead of what was done to it")
    for death in dead[:1]:
        found = found or check_death_is_told(history, life, death)
    return found


def _start_or_pool_fails(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    struck = raised(history, life, by_worker=True)
    if not struck or deaths(history, life):
        return _pool_fails(scenario, history, life)
    if life.start.pending_at(struck[0].t):
        if life.start.ok:
            return unaffected(scenario, history, life)
        return start_fails(scenario, history, life)
    return fails_by_itself(scenario, history, life)


def fails_by_itself(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    """A worker that an exception may have ended: then every later call errs; or all is well."""
    stop = life.stop_began()
    signs = [*ends(history, life).values(), *life.callbacks]
    signs += [event for event in history.of("leaving") if event.t >= life.start.began.t]
    signs += _told_already(life, *ends(history, life).values())
    if not any(stop is None or event.t < stop for event in signs):
        hits = raised(history, life, by_worker=True)
        if any(act.pending_at(hit.t) for hit in hits for act in life.served()):
            return call_or_pool_fails(scenario, history, life)  # it may be that call's error
        return unaffected(scenario, history, life)
    gone = ends(history, life)
    for strike in strikes(history):
        if strike.rank is not None and strike.rank in gone:
            return check_death_is_told(history, life, Death(strike.rank, strike, gone[strike.rank]))
    raise Inconclusive("the worker that the exception struck was not seen to end")


def _fails_or_serves(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    if raised(history, life, by_worker=True):
        return fails_by_itself(scenario, history, life)
    left = [death for death in deaths(history, life) if _left_first(history, life, death)]
    if left:
        return check_death_is_told(history, life, left[0])
    return unaffected(scenario, history, life)


def _left_first(history: History, life: Life, death: Death) -> bool:
    """Return whether a worker was on its way out before the pool was asked to stop."""
    stop = life.stop_began()
    signs = [death.event, *life.callbacks, *history.of("leaving", role=death.strike.role)]
    signs += _told_already(life, death.event)
    return stop is None or min(event.t for event in signs) < stop


def _told_already(life: Life, *ended: Event) -> list[Event]:
    """Return the ends of calls that reported a death, if a worker ended as no shutdown ends one.

    A worker may announce that it leaves a while before it does.
    """
    if not any(_of_itself(event) for event in ended):
        return []
    told_so = [act for act in life.served() if act.outcome == "peer-died"]
    return [act.ended for act in told_so if act.ended is not None]


def _of_itself(event: Event) -> bool:
    number = event.number("signal", 0)
    return event.number("code", 0) != 0 or number not in (0, signal.SIGTERM, signal.SIGKILL)


_BY_ENDING: dict[Ending, Judge] = {
    "start-fails": start_fails,
    "start-or-pool-fails": _start_or_pool_fails,
    "pool-fails": _pool_fails,
    "fails-or-serves": _fails_or_serves,
    "call-fails": call_fails,
    "call-or-pool-fails": call_or_pool_fails,
    "deadline": deadline_kept,
    "stops-in-time": stops_in_time,
    "unaffected": unaffected,
    "start-undone": start_undone,
}
_UNITS = {"pool-fails": "deaths", "stops-in-time": "shutdowns", "deadline": "deadlines"}


def ends_as(default: Ending) -> Checker:
    """The judge of an invariant whose scenarios say which ending they expect, or mean this one."""

    def look(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
        expected = scenario.expects or default
        if expected == "workers-gone":
            return workers_gone(scenario, history, ledger)
        found = hangs(history)
        pools = lives(history)
        if not found and not pools:
            raise Inconclusive("no pool was started")
        for life in pools[:1]:
            found = found or _BY_ENDING[expected](scenario, history, life)
        for life in pools[1:]:
            found = found or next_pool(history, life)
        return Finding(found[:1], {_UNITS.get(expected, "plays"): 1})

    return look


def next_after(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """W10: what was done to the first pool ended as expected, and the next one works."""
    if scenario.expects:
        ends_as(scenario.expects)(scenario, history, ledger)
    return next_works(scenario, history, ledger)


POOL: dict[str, Checker] = {
    "W3": ends_as("pool-fails"),
    "W4": ends_as("workers-gone"),
    "W5": ends_as("deadline"),
    "W6": ends_as("call-fails"),
    "W7": ends_as("start-fails"),
    "W9": own_ends_alone,
    "W10": next_after,
}
