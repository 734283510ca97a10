"""Judges of a process group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from killpoint.checkers.base import Checks, failed_orders
from killpoint.checkers.finding import Checker, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.group.checks import barriers, deaths, delivery, growth, histories
from killpoint.systems.group.checks.interruptions import group_unharmed
from killpoint.systems.group.record import ENDS
from killpoint.verdict import Violation


class GroupChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {
        "G1": delivery.check_g1_order,
        "G2": growth.check_g2_memory,
        "G3": barriers.check_g3_barriers,
        "G4": deaths.check_g4_deaths,
        "G5": delivery.check_g5_clock,
        "H2": histories.check_h2_group_history,
    }
    call_ends = tuple(ENDS.values())

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class."""
        return hangs(history) or failed_orders(history)

    def unharmed(self, scenario: Scenario, history: History) -> list[Violation]:
        """See the base class."""
        return group_unharmed(scenario, history)

    def may_listen_at(self, scenario: Scenario, history: History) -> str:
        """See the base class: the host listens for its members."""
        return scenario.group.host if scenario.group is not None else ""


CHECKS = GroupChecks()
