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
from killpoint.systems.engine.checks import answers, faults, health, tokens
from killpoint.verdict import Violation


class EngineChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {
        "E1": answers.answered,
        "E2": tokens.equal,
        "E3": faults.survived,
        "E4": health.honest,
    }

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class: a request that was not answered, or with other tokens."""
        found = hangs(history)
        with contextlib.suppress(Inconclusive):
            found = found or answers.answered(scenario, history, ledger).violations
            found = found or tokens.equal(scenario, history, ledger).violations
        return found


CHECKS = EngineChecks()
