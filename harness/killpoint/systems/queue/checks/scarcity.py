"""Scarce resources: too little /dev/shm (Q15), too few descriptors for a handshake (Q10)."""

from __future__ import annotations

from killpoint.checkers.finding import (
    Checker,
    Finding,
    Inconclusive,
    crashes,
    deaths,
    evidence,
    hangs,
)
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Fault, Make, Scenario
from killpoint.systems.queue.record import mismatches
from killpoint.verdict import Violation

_OPENING = ("make", "attach", "ready")


def check_q15_error_at_construction(
    scenario: Scenario, history: History, _ledger: Ledger
) -> Finding:
    """Q15: a queue that was made works to its end; one that cannot be made says so, then.

    A death by SIGBUS was found before: crashes come first.
    """
    made = [event for event in history.of("end") if event.text("op") == "make"]
    if not made:
        raise Inconclusive("no queue was asked for")
    if scenario.shm_bytes is None:
        raise Inconclusive("the play had the machine's own /dev/shm")
    found = hangs(history)
    if made[0].text("outcome") == "ok":
        for reader in scenario.readers():
            found = found or _under_load(scenario, history, reader)
    if scenario.restart and len(made) > 1 and not found:
        found = _next_one(history, made[1])
    refused = sum(event.text("outcome") != "ok" for event in made)
    return Finding(found[:1], {"queues": len(made), "refused": refused})


def _under_load(scenario: Scenario, history: History, reader: str) -> list[Violation]:
    failed = next((e for e in history.of("sent") if e.text("outcome") != "ok"), None)
    if failed is not None:
        cause = (
            f"make succeeded in a /dev/shm of {scenario.shm_bytes} bytes; only a send found that"
            f" there is too little: {failed.text('error') or failed.text('outcome')}"
        )
        return [Violation("no-error", cause, evidence(history, [failed]))]
    return mismatches(history, reader) if not scenario.restart else []


def _next_one(history: History, made: Event) -> list[Violation]:
    later = [made, *(e for e in history.of("got") if e.t > made.t)]
    if all(event.text("outcome") == "ok" for event in later) and len(later) > 1:
        return []
    last = later[-1]
    said = last.text("error") or last.text("outcome")
    cause = f"after a queue that was refused, a small one did not work either: {said}"
    return [Violation("no-error", cause, evidence(history, later))]


def or_starved(judge: Checker) -> Checker:
    """A judge of handshakes that also knows what is due of a role without descriptors."""

    def look(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
        starves = any(isinstance(s, Fault) and s.fault == "starve" for s in scenario.steps)
        return (_starved if starves else judge)(scenario, history, ledger)

    return look


def _starved(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """Q10: make, attach and ready end; a role that lacks nothing takes no peer for dead."""
    hungry = {event.role for event in history.of("starved")}
    if not hungry:
        raise Inconclusive("no role was seen to be starved")
    opened = [e for e in history.of("end") if e.text("op") in _OPENING]
    failed = [e for e in opened if e.role in hungry and e.text("outcome") != "ok"]
    found = hangs(history) or _blamed(history, failed) or _dragged_down(scenario, history, hungry)
    return Finding(found[:1], {"starved": len(hungry), "starved calls that failed": len(failed)})


def _blamed(history: History, failed: list[Event]) -> list[Violation]:
    dead = {*deaths(history), *(v.cause.split()[0] for v in crashes(history))}
    for event in failed:
        if event.text("outcome") == "peer-died" and not dead:
            cause = (
                f"{event.role} had no descriptor left in {event.text('op')} and reported a death"
                f" instead, although nobody had died: {event.text('error')}"
            )
            return [Violation("no-error", cause, evidence(history, [event]))]
    return []


def _dragged_down(scenario: Scenario, history: History, hungry: set[str]) -> list[Violation]:
    """Others attach whatever the starved one does, if there is a queue to attach to."""
    first = next((step for step in scenario.steps if isinstance(step, Make)), None)
    if first is None or "writer" in hungry:
        return []
    for event in history.of("end"):
        bad = event.text("op") == "attach" and event.text("outcome") != "ok"
        if bad and event.role not in hungry:
            cause = (
                f"{event.role} could not attach because {', '.join(sorted(hungry))} had too few"
                f" descriptors: {event.text('error')}"
            )
            return [Violation("no-error", cause, evidence(history, [event]))]
    return []
