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
    histories,
    send_buffer,
    transfers,
)
from killpoint.systems.pipe.checks.interruptions import pipe_unharmed
from killpoint.systems.pipe.record import ENDS
from killpoint.verdict import Violation


class PipeChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {
        "K1": transfers.check_k1_bit_equal,
        "K2": send_buffer.check_k2_send_buffer,
        "K3": errors.check_k3_errors,
        "K4": deaths.check_k4_deaths,
        "K5": transfers.check_k5_as_sent,
        "K6": forged_frames.check_k6_forged_frames,
        "K7": transfers.check_k7_both_ways,
        "K8": blocks.check_k8_blocks,
        "H4": histories.check_h4_pipe_history,
    }
    call_ends = tuple(ENDS.values())

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class."""
        return hangs(history) or transfers.undisturbed(scenario, history)

    def unharmed(self, scenario: Scenario, history: History) -> list[Violation]:
        """See the base class."""
        return pipe_unharmed(scenario, history)


CHECKS = PipeChecks()
