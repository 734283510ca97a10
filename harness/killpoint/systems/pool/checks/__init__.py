"""Judges of a worker pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from killpoint.checkers.base import Checks, failed_calls
from killpoint.checkers.finding import Checker, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pool.checks import by_invariant, histories, lifecycle, replies
from killpoint.verdict import Violation


class PoolChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {
        "W1": lifecycle.check_w1_lifecycle,
        "W2": replies.check_w2_replies,
        "W8": replies.check_w8_order,
        "H3": histories.check_h3_pool_history,
        **by_invariant.POOL,
    }

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class."""
        return hangs(history) or failed_calls(history, ("call-done",))


CHECKS = PoolChecks()
