"""Judges: pure functions from (scenario, history, ledger) to violations, by invariant id."""

from __future__ import annotations

from typing import cast

from killpoint import extensions
from killpoint.checkers import exposure, interrupted
from killpoint.checkers.base import checks_of
from killpoint.checkers.finding import Checker, Finding, Inconclusive, crash_first
from killpoint.checkers.leaks import check_l1_nothing_left
from killpoint.history.record import History
from killpoint.invariants import CATALOGUE
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.registry import SYSTEMS, part

_OF_EVERY_SYSTEM: dict[str, Checker] = {
    "R9": interrupted.check_r9_interrupted,
    "S1": exposure.check_s1_listeners,
    "S2": exposure.check_s2_permissions,
    "S3": exposure.check_s3_strangers,
    "S4": exposure.check_s4_floods,
    "L1": check_l1_nothing_left,
}
_EXPLORED = ("R5", "C1", "C3")
"""Judged where they are explored, not from the history of a play."""


def _by_system(id: str) -> Checker:
    """Return the judge of an invariant, which asks the scenario's own system first."""

    def look(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
        own = checks_of(scenario).judge(id) or _OF_EVERY_SYSTEM.get(id)
        judge = own or _added(id) or _of_another(id)
        if judge is None:
            raise Inconclusive(f"{id} is judged of whole servers alone")
        return judge(scenario, history, ledger)

    return look


def _added(id: str) -> Checker | None:
    """Return the judge that a package outside the tree has for an invariant of its own."""
    tables = extensions.everything("checks", "JUDGES")
    known = (cast("dict[str, Checker]", table).get(id) for table in tables)
    return next((judge for judge in known if judge is not None), None)


def _of_another(id: str) -> Checker | None:
    """Return the judge of the system that the invariant is of, if any has one."""
    known = (part(name, "checks").CHECKS.judges.get(id) for name in SYSTEMS)
    return next((judge for judge in known if judge is not None), None)


CHECKERS: dict[str, Checker] = {
    invariant.id: crash_first(invariant.id, _by_system(invariant.id))
    for invariant in CATALOGUE
    if invariant.id not in _EXPLORED
}
"""One judge an invariant, each of which looks for crashes first.

What a judge raises makes the case inconclusive, never held.
"""
