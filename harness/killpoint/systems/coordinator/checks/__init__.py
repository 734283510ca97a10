"""Judges of a data-parallel coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from killpoint.checkers.base import Checks, failed_calls
from killpoint.checkers.finding import Checker, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.coordinator.checks import histories, hostile_peers, losses, publication
from killpoint.verdict import Violation


class CoordinatorChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {
        "C2": losses.check_c2_requests_served,
        "C4": hostile_peers.check_c4_malformed_dropped,
        "C5": publication.check_c5_clock,
        "C6": losses.check_c6_deaths_noticed,
        "C7": publication.check_c7_publication,
        "H5": histories.check_h5_coordinator_history,
    }

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class."""
        return hangs(history) or failed_calls(history, ("hear-done",))

    def may_listen_at(self, scenario: Scenario, history: History) -> str:
        """See the base class."""
        return scenario.coordinator.host if scenario.coordinator is not None else ""


CHECKS = CoordinatorChecks()
