"""Message orders on trial: explored where the target is loaded, and kept as a file."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Finding
from killpoint.explore.orders.errand import Errand, Explored
from killpoint.explore.trial import Trial
from killpoint.scenario import Scenario
from killpoint.scenario.orders import Orders

_WHERE = "killpoint.explore.orders.errand:answer"
_BESIDE = 60.0
"""Seconds for everything but the search."""
_SHOWN = 14
_DECODER = msgspec.msgpack.Decoder(Explored)  # made once: see killpoint.scenario.file


def explore(trial: Trial, scenario: Scenario, seconds: float) -> Explored:
    """Explore the message orders of a scenario, or play the one that it has.

    Raises:
        Violated: an order broke the invariant, and did so again when it was played.
        Unsupported: nothing can be called here.
    """
    orders = scenario.orders or Orders()
    errand = Errand(orders, trial.outcome.invariant, seconds)
    said = trial.call(_WHERE, msgspec.msgpack.encode(errand), seconds + _BESIDE)
    explored = _DECODER.decode(said)
    found = explored.searched
    trial.count(Finding([], {"orders' states": found.states if found else len(explored.lines)}))
    if found is not None:
        trial.outcome.searched.append(f"{orders}: {found}")
        if not found.whole and found.violation is None:
            trial.doubt(f"{orders}: {found.states} states in {seconds:g} s, and there are more")
    if explored.doubt:
        trial.doubt(explored.doubt)
    elif explored.violation is not None:
        _convict(trial, scenario, orders, explored)
    return explored


def _convict(trial: Trial, scenario: Scenario, orders: Orders, explored: Explored) -> None:
    assert explored.violation is not None
    found = msgspec.structs.replace(explored.violation, evidence=explored.lines[-_SHOWN:])
    kept = msgspec.structs.replace(orders, moves=explored.lines)
    text = trial.replay_of(msgspec.structs.replace(scenario, orders=kept), found.cause)
    trial.convict(found, trial.keep_text(text, trial.outcome.id))
