"""Judges: pure functions from (scenario, history, ledger) to violations, by invariant id."""

from __future__ import annotations

from killpoint.checkers import (
    blocks,
    coordinator_hostile,
    coordinator_loss,
    coordinator_publication,
    cut_off,
    engine,
    engine_faults,
    engine_health,
    engine_tokens,
    exposure,
    flow,
    group,
    group_barrier,
    group_death,
    group_growth,
    growth,
    interrupted,
    pipe,
    pipe_buffer,
    pipe_death,
    pipe_errors,
    pipe_hostile,
    pool,
    pool_life,
    pool_replies,
    queue_death,
    queue_delivery,
    queue_life,
    queue_time,
    ranks,
    ring,
    scarcity,
)
from killpoint.checkers.finding import Checker, Finding, Inconclusive, crash_first
from killpoint.checkers.leaks import nothing_left
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario

_JUDGES: dict[str, Checker] = {
    "R1": ring.transitions,
    "R2": queue_delivery.whole,
    "R3": queue_delivery.ring_in_order,
    "R4": ring.never_overwritten,
    "R6": queue_delivery.not_aliased,
    "R7": queue_delivery.failures_consumed,
    "R8": ring.creator_unlinks,
    "R9": interrupted.whole_or_not_at_all,
    "Q1": queue_delivery.all_in_order,
    "Q2": queue_delivery.one_order,
    "Q3": queue_delivery.as_enqueued,
    "Q4": queue_delivery.carried_or_refused,
    "Q5": flow.slow_reader_kept,
    "Q6": queue_death.writer_death_told,
    "Q7": queue_death.reader_death_told,
    "Q8": queue_time.woken,
    "Q9": queue_time.deadlines,
    "Q10": scarcity.or_starved(queue_life.ready_ends),
    "Q11": queue_life.endings_end,
    "Q12": growth.flat,
    "Q13": queue_delivery.exactly_once,
    "Q14": queue_delivery.all_in_order,
    "Q15": scarcity.error_at_construction,
    "Q16": queue_life.delivered_before_close,
    "Q17": ranks.ranks_are_checked,
    "Q18": cut_off.cut_off_told,
    "G1": group.in_order,
    "G2": group_growth.flat,
    "G3": group_barrier.barriers_told,
    "G4": group_death.unharmed_or_told,
    "G5": group.clock_free,
    "C2": coordinator_loss.served,
    "C4": coordinator_hostile.dropped_alone,
    "C5": coordinator_publication.clock_free,
    "C6": coordinator_loss.noticed,
    "C7": coordinator_publication.never_starved,
    "S1": exposure.listeners_as_asked,
    "S2": exposure.owners_alone,
    "S3": exposure.strangers_shut_out,
    "S4": exposure.floods_borne,
    "L1": nothing_left,
    "W1": pool_life.forward_only,
    "W2": pool_replies.replies_belong,
    "W8": pool_replies.in_order,
    **pool.POOL,
    "K1": pipe.bit_equal,
    "K2": pipe_buffer.emptied,
    "K3": pipe_errors.failures_told,
    "K4": pipe_death.deaths_told,
    "K5": pipe.as_sent,
    "K6": pipe_hostile.refused,
    "K7": pipe.both_ways,
    "K8": blocks.served_or_failed,
    "E1": engine.answered,
    "E2": engine_tokens.equal,
    "E3": engine_faults.survived,
    "E4": engine_health.honest,
}


def _by_system(id: str) -> Checker:
    """Return the judge of an invariant; whole servers have their own checks."""
    own = _JUDGES.get(id)

    def look(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
        if scenario.server is not None:
            from killpoint.systems.server import checks  # they build on this package

            return checks.judge(id, scenario, history, ledger)
        if own is None:
            raise Inconclusive(f"{id} is judged of whole servers alone")
        return own(scenario, history, ledger)

    return look


_IDS = (*_JUDGES, "E5", "E6", "E7", "E8", "E9", "E10")
CHECKERS: dict[str, Checker] = {id: crash_first(id, _by_system(id)) for id in _IDS}
"""One judge per invariant; each looks for crashes first.

An exception in a judge makes the case inconclusive, never held.
"""
