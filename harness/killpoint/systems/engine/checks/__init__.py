"""Judges of a whole engine that is driven through its own interface."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import ClassVar

from killpoint.checkers.base import Checks
from killpoint.checkers.finding import Checker, Inconclusive, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.engine.checks import answers, faults, health, histories, tokens
from killpoint.verdict import Violation


class EngineChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {
        "E1": answers.check_e1_every_request_ends,
        "E2": tokens.check_e2_tokens,
        "E3": faults.check_e3_survives_faults,
        "E4": health.check_e4_health,
        "H6": histories.check_h6_engine_history,
    }

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class: a request that was not answered, or with other tokens."""
        found = hangs(history)
        with contextlib.suppress(Inconclusive):
            found = (
                found or answers.check_e1_every_request_ends(scenario, history, ledger).violations
            )
            found = found or tokens.check_e2_tokens(scenario, history, ledger).violations
        return found


CHECKS = EngineChecks()
