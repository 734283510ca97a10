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
    histories,
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
        "R1": ring.check_r1_slot_states,
        "R2": delivery.check_r2_whole_messages,
        "R3": delivery.check_r3_ring_order,
        "R4": ring.check_r4_no_overwrite,
        "R6": delivery.check_r6_no_aliasing,
        "R7": delivery.check_r7_failures_consumed,
        "R8": ring.check_r8_unlink,
        "Q1": delivery.check_q1_all_in_order,
        "Q2": delivery.check_q2_one_order,
        "Q3": delivery.check_q3_as_enqueued,
        "Q4": delivery.check_q4_carried_or_refused,
        "Q5": backpressure.check_q5_backpressure,
        "Q6": deaths.check_q6_writer_death,
        "Q7": deaths.check_q7_reader_death,
        "Q8": deadlines.check_q8_wakeups,
        "Q9": deadlines.check_q9_deadlines,
        "Q10": scarcity.or_starved(lifecycle.check_q10_ready),
        "Q11": lifecycle.check_q11_close,
        "Q12": growth.check_q12_memory,
        "Q13": delivery.check_q13_exactly_once,
        "Q14": delivery.check_q1_all_in_order,
        "Q15": scarcity.check_q15_error_at_construction,
        "Q16": lifecycle.check_q16_delivered_before_close,
        "Q17": rank_checks.check_q17_ranks,
        "Q18": partitions.check_q18_partitions,
        "H1": histories.check_h1_queue_history,
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
