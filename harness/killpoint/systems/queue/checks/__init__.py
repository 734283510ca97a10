"""Judges of a queue and of the ring below it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from killpoint.checkers import finding
from killpoint.checkers.base import Checks, failed_orders
from killpoint.checkers.finding import Checker, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.queue.checks import (
    backpressure,
    deadlines,
    deaths,
    delivery,
    growth,
    lifecycle,
    partitions,
    rank_checks,
    ring,
    scarcity,
)
from killpoint.systems.queue.checks.interruptions import queue_unharmed
from killpoint.systems.queue.record import mismatches, sent
from killpoint.verdict import Violation


class QueueChecks(Checks):
    """See the base class."""

    judges: ClassVar[Mapping[str, Checker]] = {
        "R1": ring.transitions,
        "R2": delivery.whole,
        "R3": delivery.ring_in_order,
        "R4": ring.never_overwritten,
        "R6": delivery.not_aliased,
        "R7": delivery.failures_consumed,
        "R8": ring.creator_unlinks,
        "Q1": delivery.all_in_order,
        "Q2": delivery.one_order,
        "Q3": delivery.as_enqueued,
        "Q4": delivery.carried_or_refused,
        "Q5": backpressure.slow_reader_kept,
        "Q6": deaths.writer_death_told,
        "Q7": deaths.reader_death_told,
        "Q8": deadlines.woken,
        "Q9": deadlines.deadlines,
        "Q10": scarcity.or_starved(lifecycle.ready_ends),
        "Q11": lifecycle.endings_end,
        "Q12": growth.flat,
        "Q13": delivery.exactly_once,
        "Q14": delivery.all_in_order,
        "Q15": scarcity.error_at_construction,
        "Q16": lifecycle.delivered_before_close,
        "Q17": rank_checks.ranks_are_checked,
        "Q18": partitions.cut_off_told,
    }

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class: an order that failed, or a message that did not arrive."""
        found = hangs(history) or failed_orders(history)
        if not any(message.ok for message in sent(history)):
            return found
        for reader in scenario.readers():
            if reader not in finding.deaths(history):
                found = found or mismatches(history, reader)
        return found

    def unharmed(self, scenario: Scenario, history: History) -> list[Violation]:
        """See the base class."""
        return queue_unharmed(scenario, history)

    def may_listen_at(self, scenario: Scenario, history: History) -> str:
        """See the base class: the writer listens for remote readers alone."""
        return scenario.shape.host if scenario.shape.remote else ""


CHECKS = QueueChecks()
