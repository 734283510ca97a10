"""Judges of a KV-transfer pipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from killpoint.checkers.base import Checks
from killpoint.checkers.finding import Checker, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pipe.checks import (
    blocks,
    deaths,
    errors,
    forged_frames,
    send_buffer,
    transfers,
)
from killpoint.systems.pipe.checks.interruptions import pipe_unharmed
from killpoint.systems.pipe.record import ENDS
from killpoint.verdict import Violation


class PipeChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {
        "K1": transfers.bit_equal,
        "K2": send_buffer.emptied,
        "K3": errors.failures_told,
        "K4": deaths.deaths_told,
        "K5": transfers.as_sent,
        "K6": forged_frames.refused,
        "K7": transfers.both_ways,
        "K8": blocks.served_or_failed,
    }
    call_ends = tuple(ENDS.values())

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class."""
        return hangs(history) or transfers.undisturbed(scenario, history)

    def unharmed(self, scenario: Scenario, history: History) -> list[Violation]:
        """See the base class."""
        return pipe_unharmed(scenario, history)


CHECKS = PipeChecks()
