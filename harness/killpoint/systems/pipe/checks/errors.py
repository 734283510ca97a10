"""Failed sends (K3): an error at the sender's next call or close, and at the receiver."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, hangs, hangs_of
from killpoint.checkers.partition import network_faults
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pipe.checks.partitions import links_told
from killpoint.systems.pipe.checks.transfers import misplaced
from killpoint.systems.pipe.model import PipeLane, Sent
from killpoint.systems.pipe.record import Call, Lane, calls, lanes
from killpoint.verdict import Violation


def check_k3_errors(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """K3: a send error surfaces at the sender (next call or close) and at the receiver.

    The same holds for an error of a link.
    """
    if network_faults(history):
        return links_told(scenario, history)
    made = calls(history)
    strikes = {event.role: event for event in history.of("raised")}
    failed = [c for c in made if c.op == "pipe-send" and not c.carriable and c.made]
    if not failed and not strikes:
        raise Inconclusive("no send failed")
    found: list[Violation] = []
    for lane in lanes(scenario, made):
        found = found or _of_lane(history, lane, made, strikes.get(lane.source))
    found = found or [v for lane in lanes(scenario, made) for v in misplaced(history, lane)]
    found = found or hangs(history)
    return Finding(found[:1], {"failures": len(failed) + len(strikes)})


def _of_lane(
    history: History, lane: Lane, made: list[Call], strike: Event | None
) -> list[Violation]:
    lost = next((c for c in lane.sent if c.ok and not c.carriable), None)
    if lost is None and strike is not None:
        lost = _never_came(lane)
    if lost is None:
        return []
    if not _told(lane.source, made, lost):
        how = f" ({strike.text('where')})" if strike is not None else ""
        what = f"{lost.words()} was accepted and failed{how}, and no later call told {lane.source}"
        closed = any(c.op == "pipe-close" and c.role == lane.source and c.ended for c in made)
        cause = f"{what}{', its close included' if closed else ''}"
        waits = hangs_of(history, lane.source)
        if waits:
            return [Violation("hang", f"{waits[0].cause}: {cause}", waits[0].evidence)]
        return [Violation("no-error", cause, _shown(history, lane, lost))]
    if not _told(lane.taker, made, lost) and _asked_for(lane, lost):
        hung = hangs_of(history, lane.taker)
        cause = f"{lost.words()} failed, and {lane.taker}, which waited for it, was never told"
        kind = "hang" if hung else "no-error"
        return [Violation(kind, cause, hung[0].evidence if hung else _shown(history, lane, lost))]
    return []


def _never_came(lane: Lane) -> Call | None:
    """The first send that was accepted, and whose tensor its taker asked for in vain."""
    model = PipeLane([Sent(call.digest, call.ok) for call in lane.sent])
    for call in lane.got:
        if call.ok:
            model.take(call.digest)
    places = [*model.missed]
    if (due := model.due()) is not None:
        places.append(due)
    lost = lane.sent[min(places)] if places else None
    return lost if lost is not None and _asked_for(lane, lost) else None


def _asked_for(lane: Lane, lost: Call) -> bool:
    """Return whether the taker made a call that the tensor should have come by."""
    due = sum(call.ok for call in lane.sent[: lane.sent.index(lost)])
    return len(lane.got) > due


def _told(role: str, made: list[Call], since: Call) -> bool:
    mine = [call for call in made if call.role == role]
    return any(call.tells and (call.ended or call.began).t >= since.began.t for call in mine)


def _shown(history: History, lane: Lane, lost: Call) -> list[str]:
    later = [c for c in lane.sent if c.began.t >= lost.began.t][:2] + lane.got[-2:]
    closed = list(history.of("pipe-close", "pipe-closed", role=lane.source))
    return history.lines(sorted([*(e for c in later for e in c.events()), *closed], key=_time))


def _time(event: Event) -> int:
    return event.t
