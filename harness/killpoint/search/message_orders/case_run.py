"""The run of a case of message orders: searched where the target is loaded, kept as a file."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Finding
from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.message_orders.remote_call import Explored, SearchCall
from killpoint.systems.coordinator.orders import Orders

_WHERE = "killpoint.search.message_orders.remote_call:answer"
_BESIDE = 60.0
"""Seconds for everything but the search."""
_SHOWN = 14
_DECODER = msgspec.msgpack.Decoder(Explored)  # made once: see killpoint.scenario.file


def explore(case_run: CaseRun, scenario: Scenario, seconds: float) -> Explored:
    """Explore the message orders of a scenario, or play the one that it has.

    Raises:
        Violated: an order broke the invariant, and did so again when it was played.
        Unsupported: nothing can be called here.
    """
    orders = scenario.orders or Orders()
    search_call = SearchCall(orders, case_run.outcome.invariant, seconds)
    said = case_run.call(_WHERE, msgspec.msgpack.encode(search_call), seconds + _BESIDE)
    explored = _DECODER.decode(said)
    found = explored.searched
    case_run.count(Finding([], {"orders' states": found.states if found else len(explored.lines)}))
    if found is not None:
        case_run.outcome.searched.append(f"{orders}: {found}")
        if not found.whole and found.violation is None:
            case_run.inconclusive(
                f"{orders}: {found.states} states in {seconds:g} s, and there are more"
            )
    if explored.doubt:
        case_run.inconclusive(explored.doubt)
    elif explored.violation is not None:
        _convict(case_run, scenario, orders, explored)
    return explored


def _convict(case_run: CaseRun, scenario: Scenario, orders: Orders, explored: Explored) -> None:
    assert explored.violation is not None
    found = msgspec.structs.replace(explored.violation, evidence=explored.lines[-_SHOWN:])
    kept = msgspec.structs.replace(orders, moves=explored.lines)
    text = case_run.kept.replay_of(msgspec.structs.replace(scenario, orders=kept), found.cause)
    case_run.fail(found, case_run.kept.text(text, case_run.outcome.id))
