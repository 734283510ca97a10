"""A pipe without faults: bit-equal, in order (K1), as it was at the send (K5), both ways (K7)."""

from __future__ import annotations

from collections.abc import Collection

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pipe.model import PipeLane, Sent
from killpoint.systems.pipe.record import Call, Lane, calls, lanes
from killpoint.verdict import Kind, Violation


def check_k1_bit_equal(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """K1: every tensor arrives with the dtype, shape and bits that it had, in order."""
    found = undisturbed(scenario, history)
    arrived = arrivals(history)
    if not found and not arrived:
        raise Inconclusive("no tensor arrived anywhere")
    return Finding(found[:1], {"tensors": arrived})


def check_k5_as_sent(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """K5: a tensor arrives as it was given to the send, whatever its caller does next."""
    changed = {e.text("digest"): e for e in history.of("overwritten")}
    if not changed:
        raise Inconclusive("nothing was overwritten after its send")
    found = undisturbed(scenario, history)
    return Finding(found[:1], {"overwritten": len(changed)})


def check_k7_both_ways(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """K7: tensors pass in every direction at once, whichever rank receives first."""
    found = undisturbed(scenario, history)
    used = [lane for lane in lanes(scenario, calls(history)) if any(c.ok for c in lane.got)]
    if not found and len(used) < min(2, len(scenario.roles())):
        raise Inconclusive(f"tensors passed in {len(used)} directions")
    return Finding(found[:1], {"directions": len(used), "tensors": arrivals(history)})


def arrivals(history: History) -> int:
    """Return the number of tensors that arrived at any rank."""
    return sum(c.ok for c in calls(history) if c.op == "pipe-receive")


def undisturbed(
    scenario: Scenario, history: History, dead: Collection[str] = ()
) -> list[Violation]:
    """Return what went wrong between ranks although none but the ``dead`` gave cause for it."""
    made = calls(history)
    return (
        outsiders(history, dead)
        or [v for lane in lanes(scenario, made) for v in _judge(history, lane, dead)]
        or closes(history, made, dead)
        or hangs(history)
    )


def outsiders(history: History, dead: Collection[str]) -> list[Violation]:
    """A rank whose end could not be made where nothing was wrong."""
    for event in history.of("end"):
        failed = event.text("outcome") not in ("ok", "injected")
        if event.role not in dead and event.text("op") == "pipe-open" and failed:
            cause = f"{event.role}'s end of the pipe could not be made: {event.text('error')}"
            return [Violation("lost", cause, evidence(history, [event]))]
    return []


def _judge(history: History, lane: Lane, dead: Collection[str]) -> list[Violation]:
    alive = not {lane.source, lane.taker} & {*dead}
    for call in lane.sent:
        if alive and call.tells and call.carriable:
            return [_says(history, lane, call, "lost", f"{call.words()} failed: {call.error}")]
    found = misplaced(history, lane)
    if found:
        return found
    for call in lane.got:
        if alive and call.tells:
            return [_says(history, lane, call, "lost", f"{call.words()} failed: {call.error}")]
    return []


def misplaced(history: History, lane: Lane) -> list[Violation]:
    """Return a violation for the first tensor that was not to come, or not there."""
    sent = [Sent(call.digest, call.ok and call.carriable) for call in lane.sent]
    model = PipeLane(sent)
    changed = {e.text("digest"): e.number("seq") for e in history.of("overwritten")}
    for index, call in enumerate(lane.got):
        if not call.ok:
            continue
        due = model.due()
        step = model.take(call.digest)
        if not step:
            continue
        place = f"arrival {index} at {lane.taker}"
        expected = f"tensor {lane.sent[due].seq} was to come" if due is not None else "none was due"
        if step == "skipped":
            first = lane.sent[model.missed[0]]
            what = f"{first.words()} was accepted, and never came: {place} is a later one"
            return [_says(history, lane, call, "lost", what)]
        if step == "unknown" and call.digest in changed:
            what = (
                f"{place} has what the caller made of tensor {changed[call.digest]}"
                " after its send had returned"
            )
            return [_says(history, lane, call, "wrong-data", what)]
        if step == "unknown":
            seen = (
                f"{call.ended.text('dtype')} {call.ended.data.get('shape')}" if call.ended else ""
            )
            what = f"{place} ({seen}) is nothing that {lane.source} sent; {expected}"
            return [_says(history, lane, call, "wrong-data", what)]
        kind: Kind = "duplicate" if step == "duplicate" else "reordered"
        word = "has come before" if step == "duplicate" else "comes late"
        return [_says(history, lane, call, kind, f"{place} {word}; {expected}")]
    return []


def closes(history: History, made: list[Call], dead: Collection[str]) -> list[Violation]:
    """Return a violation if a close failed where no rank gave cause for it."""
    if dead:
        return []
    for call in made:
        if call.op == "pipe-close" and call.tells:
            cause = f"{call.words()} failed: {call.error}"
            return [Violation("lost", cause, evidence(history, call.events()))]
    return []


def _says(history: History, lane: Lane, call: Call, kind: Kind, cause: str) -> Violation:
    around = [e for c in lane.sent[:4] for e in c.events()]
    return Violation(kind, cause, evidence(history, [*around, *call.events()]))
