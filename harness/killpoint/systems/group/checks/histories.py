"""Histories of many ranks at once, against the specification of a process group (H2).

Each pair of ranks has a lane of its own, each source's broadcasts one to every rank; gathers and
barriers are numbered at each rank. A receive that ran out of time took nothing, and may do so only
while nothing was due in its lane. Calls of one rank may be under way at once, each in a thread of
its own: those of one lane took effect in either order, and each is woken by what it waits for.
"""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, deaths
from killpoint.checkers.overlap import overlap, span
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.group.checks.delivery import arrivals, undisturbed
from killpoint.systems.group.checks.meetings import blamed, gathered_with_dead, too_long_away
from killpoint.systems.group.checks.wakings import overslept
from killpoint.systems.group.record import calls, streams


def check_h2_group_history(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """H2: what the ranks saw of the group could have been."""
    made = calls(history)
    doubt = too_long_away(history)
    if doubt:
        raise Inconclusive(doubt)
    found = (
        gathered_with_dead(scenario, history, made)
        or undisturbed(scenario, history, deaths(history))
        or overslept(scenario, history, made)
        or blamed(scenario, history, made)
    )
    if not found and not made:
        raise Inconclusive("no rank made a call")
    counts = overlap(span(call.began, call.ended) for call in made)
    lanes = len(streams(scenario, made))
    return Finding(found[:1], {"messages": arrivals(history), **counts, "lanes": lanes})
