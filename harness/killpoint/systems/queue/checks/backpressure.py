"""Flow control: a slow remote reader slows the writer, or learns what it lost (Q5)."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.queue.record import got, mismatches, sent, torn
from killpoint.verdict import Violation

_SLOWED = ("stop", "slow")
_TELLS = ("lost", "closed", "peer-died")
_WITHIN = 2.0
"""Seconds that a send may take beyond its own deadline before the writer counts as hung."""


def check_q5_backpressure(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q5: messages that a send accepted arrive, in order, or the reader gets an error."""
    slow = {e.text("target") for e in history.of("fault") if e.text("fault") in _SLOWED}
    slow &= {*scenario.remote()}
    if not slow:
        raise Inconclusive("no remote reader was slow")
    arrived = sum(call.outcome == "ok" for reader in slow for call in got(history, reader))
    found: list[Violation] = []
    for reader in scenario.readers():
        found = found or _kept(scenario, history, reader)
    found = found or hangs(history)
    if not found and not arrived:
        raise Inconclusive("nothing arrived at the slow reader")
    slowed = sum(m.ended is not None and not m.ok for m in sent(history))
    return Finding(found[:1], {"messages": arrived, "sends held up": slowed})


def _kept(scenario: Scenario, history: History, reader: str) -> list[Violation]:
    for who, _, call in torn(history, [reader], scenario.shape.chunk_bytes):
        lines = evidence(history, [call.ended] if call.ended else [])
        return [Violation("wrong-data", f"{who} received message {call.seq} altered", lines)]
    calls = got(history, reader)
    told = any(call.outcome in _TELLS for call in calls)
    everything = frozenset(message.seq for message in sent(history))
    optional = everything if told else frozenset[int]()
    found = mismatches(history, reader, optional=optional, tail_may_miss=told)
    if not found or found[0].kind != "lost":
        return found
    accepted = {message.seq for message in sent(history) if message.ok}
    here = {call.seq for call in calls if call.outcome == "ok"}
    missing = sorted(accepted - here)
    if not missing:
        return found
    cause = (
        f"{len(missing)} of {len(accepted)} messages that the writer's send had accepted never"
        f" arrived at {reader}, which was slow, first message {missing[0]}: they were dropped in"
        " silence, and neither side was told"
    )
    return [Violation("lost", cause, found[0].evidence)]
