"""Leaves and deaths in a group: leaves harm no rank, the host's death reaches all (G4)."""

from __future__ import annotations

from killpoint.checkers.error_names_rank import names_one_of
from killpoint.checkers.finding import (
    Finding,
    Inconclusive,
    deaths,
    evidence,
    graver,
    hangs,
    ordered_end,
)
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.group.checks.delivery import undisturbed
from killpoint.systems.group.checks.partitions import cut_kept_or_told
from killpoint.systems.group.record import Call, calls
from killpoint.verdict import Violation

_WITHIN = 2.0


def check_g4_deaths(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """G4: a clean leave harms no rank; each rank learns of the host's death within 2 s.

    The same holds for a rank that is cut off, unless it comes back in time; then nothing is lost.
    """
    if scenario.networked():
        return cut_kept_or_told(scenario, history)
    dead = deaths(history)
    host = scenario.roles()[0]
    if host in dead:
        return _host_died(scenario, history, dead[host])
    found = undisturbed(scenario, history, dead) or _overdue(history, dead)
    quiet = [call for call in calls(history) if call.ok and call.role not in dead]
    if not found and not quiet:
        raise Inconclusive("no rank did anything that a leave or a death could have harmed")
    return Finding(found[:1], {"deaths": len(dead)} if dead else {"leaves": 1})


def _host_died(scenario: Scenario, history: History, death: Event) -> Finding:
    found = hangs(history)
    told = 0
    doubts: list[str] = []
    host = scenario.roles()[0]
    struck = ordered_end(history, host) or death.t
    for role in scenario.roles()[1:]:
        after = [
            call
            for call in calls(history)
            if call.role == role and call.made and (call.ended is None or call.ended.t >= struck)
        ]
        word = next((call for call in after if not call.ok and call.ended is not None), None)
        if word is None:
            doubts.append(f"{role} made no call that was to be told of {host}'s death")
            continue
        told += 1
        found = graver(found, _judge(history, word, host, death))
    if not found and not told:
        raise Inconclusive(doubts[0])
    return Finding(found[:1], {"deaths": 1, "told": told})


def _judge(history: History, call: Call, host: str, death: Event) -> list[Violation]:
    assert call.ended is not None
    since = max(death.t, call.began.t)
    took = (call.ended.t - since) / 1e9
    allowed = _WITHIN + history.allowance(since, call.ended.t) / 1e9
    lines = evidence(history, [death, call.began, call.ended])
    own = call.outcome == "timeout" and call.timeout is not None and call.seconds >= call.timeout
    if took > allowed:
        how = "only its own timeout told it" if own else "it was told"
        cause = f"{call.words()}: {how} of {host}'s death after {took:.2f} s"
        return [Violation("late", cause, lines)]
    if not names_one_of(call.error, [0]):
        cause = f"{call.words()} failed for {host}'s death with an error that does not name it"
        return [Violation("no-error", f"{cause}: {call.error}", lines, "SHOULD")]
    return []


def _overdue(history: History, dead: dict[str, Event]) -> list[Violation]:
    """A call on a dead rank that went on beyond its own timeout."""
    for call in calls(history):
        about = {call.began.text("source"), call.began.text("to")} & dead.keys()
        if not about or call.ended is None or call.timeout is None or call.ok:
            continue
        allowed = call.timeout + 0.1 + history.allowance(call.began.t, call.ended.t) / 1e9
        if call.seconds > allowed:
            cause = f"{call.words()} with timeout {call.timeout:g} s took {call.seconds:.2f} s"
            lines = evidence(history, [dead[about.pop()], call.began, call.ended])
            return [Violation("late", cause, lines)]
    return []
