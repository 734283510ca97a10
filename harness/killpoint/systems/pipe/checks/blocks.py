"""KV blocks (K8): a receive gets its request's blocks, once, within their lease; or an error."""

from __future__ import annotations

from killpoint.checkers.finding import Finding, Inconclusive, deaths, hangs
from killpoint.checkers.operation import Operation
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import NETWORK_FAULTS, Fault, Scenario
from killpoint.verdict import Violation

_SECONDS = 1_000_000_000
_SLACK = 300_000_000
"""Nanoseconds by which the end of a lease may be reported late, beside the machine's own
lateness."""
_PLENTY = 1.0
"""Seconds that are enough for a few small blocks to come."""
_FORGES = "blocks-forge"
"""The next blocks of the role are harmed."""
_ENDS = {"blocks-send": "blocks-sent", "blocks-receive": "blocks-got"}


class Transfer(Operation, kw_only=True):
    """One call about one request's blocks."""

    role: str
    op: str
    request: str
    forged: str = ""
    """Fault that harmed the blocks on their way; empty if none did."""

    @property
    def digests(self) -> list[str]:
        """Fingerprints of the blocks that were sent, or that came."""
        event = self.began if self.op == "blocks-send" or self.ended is None else self.ended
        return [str(each) for each in event.items("digests")]

    def within(self, field: str) -> float | None:
        """Return the transfer's lease, or its timeout, in seconds; None if it has none."""
        found = self.began.data.get(field)
        return float(found) if isinstance(found, (int, float)) else None


def check_k8_blocks(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """K8: a lost, repeated, late, stale or mismatched block is failed, never served."""
    made = transfers(history)
    sent = [each for each in made if each.op == "blocks-send"]
    got = [each for each in made if each.op == "blocks-receive" and each.ended]
    if not sent and not got:
        raise Inconclusive("no blocks were sent or asked for")
    disturbed = bool(deaths(history)) or any(
        isinstance(step, Fault) and step.fault in NETWORK_FAULTS for step in scenario.steps
    )
    found = (
        check_requests_served(history, sent, got)
        or leases(history, sent)
        or hangs(history)
        or ([] if disturbed else _missed(history, sent, got))
    )
    forged = sum(bool(each.forged) for each in sent)
    return Finding(found[:1], {"transfers": len(sent)} | ({"forged": forged} if forged else {}))


def transfers(history: History) -> list[Transfer]:
    """Every call about blocks, in the order in which they began."""
    found: list[Transfer] = []
    inside: dict[tuple[str, str, str, int], Transfer] = {}
    begins = {end: begin for begin, end in _ENDS.items()}
    how: dict[str, str] = {}
    for event in history.of(*_ENDS, *begins, _FORGES):
        request, seq = event.text("request"), event.number("seq")
        if event.kind == _FORGES:
            how[event.role] = event.text("how")
        elif event.kind in _ENDS:
            each = Transfer(role=event.role, op=event.kind, request=request, began=event)
            if event.kind == "blocks-send":
                each.forged = how.pop(event.role, "")
            inside[event.role, event.kind, request, seq] = each
            found.append(each)
        elif (key := (event.role, begins[event.kind], request, seq)) in inside:
            inside.pop(key).ended = event
    return found


def check_requests_served(
    history: History, sent: list[Transfer], got: list[Transfer]
) -> list[Violation]:
    """Check that each served receive matches one send of its request that was not served before."""
    left = list(sent)
    for call in got:
        if not call.ok or call.ended is None:
            continue
        mine = [s for s in left if s.request == call.request and s.digests == call.digests]
        if mine:
            left.remove(mine[0])
            late = _after_the_lease(history, mine[0], call)
            if late is not None:
                what = f"{call.role} was served {call.request!r} {late:.2f} s after its lease ended"
                return [Violation("late", what, _shown(history, mine[0], call))]
            continue
        return [_wrong(history, sent, call)]
    return []


def _wrong(history: History, sent: list[Transfer], call: Transfer) -> Violation:
    whose = next((s for s in sent if {*s.digests} & {*call.digests}), None)
    if whose is None:
        what = f"{call.role} was served blocks for {call.request!r} that nobody sent"
        return Violation("wrong-data", what, _shown(history, None, call))
    if whose.request != call.request:
        what = f"{call.role} was served blocks of {whose.request!r} for {call.request!r}"
        return Violation("wrong-data", what, _shown(history, whose, call))
    if whose.digests == call.digests:
        what = f"{call.role} was served the blocks of {call.request!r} that it had before"
        return Violation("duplicate", what, _shown(history, whose, call))
    what = f"{call.role} was served a part of the blocks of {call.request!r}, or in another order"
    return Violation("wrong-data", what, _shown(history, whose, call))


def _after_the_lease(history: History, sent: Transfer, call: Transfer) -> float | None:
    lease = sent.within("lease")
    if lease is None or call.ended is None:
        return None
    end = sent.began.t + int(lease * _SECONDS)
    slack = _SLACK + history.allowance(sent.began.t, call.ended.t)
    return (call.ended.t - end) / _SECONDS if call.ended.t > end + slack else None


def leases(history: History, sent: list[Transfer]) -> list[Violation]:
    """Each transfer ends by its lease."""
    for call in sent:
        late = _after_the_lease(history, call, call)
        if late is not None:
            what = f"{call.role}'s transfer of {call.request!r} ended ({call.outcome})"
            cause = f"{what} {late:.2f} s after its lease"
            return [Violation("late", cause, history.lines(call.events()))]
    return []


def _missed(history: History, sent: list[Transfer], got: list[Transfer]) -> list[Violation]:
    """Check that a request which was sent and asked for in good time, once each, is served.

    The same holds for a request that was sent again after earlier blocks of it had come to nothing.
    """
    for call in sent:
        asked = [
            each
            for each in got
            if each.request == call.request and each.ended and each.ended.t > call.began.t
        ]
        others = [s for s in sent if s.request == call.request and s is not call]
        gone = all(s.ended and s.ended.t < call.began.t and not s.ok for s in others)
        if len(asked) != 1 or not gone or call.forged:
            continue
        earlier = [e for e in got if e.request == call.request and e not in asked]
        if asked[0].outcome == "failed" and not all(_known(each, earlier) for each in others):
            continue  # what it was told of came to nothing before
        together = max(call.began.t, asked[0].began.t)
        lease, limit = call.within("lease"), asked[0].within("timeout")
        leased = lease is None or together + _PLENTY * _SECONDS < call.began.t + lease * _SECONDS
        waited = (
            limit is None or together + _PLENTY * _SECONDS < asked[0].began.t + limit * _SECONDS
        )
        if leased and waited and not (call.ok and asked[0].ok):
            what = f"{call.request!r} was sent ({call.outcome}) and asked for in time"
            cause = f"{what}, and not served ({asked[0].outcome}: {_error(asked[0], call)})"
            return [Violation("lost", cause, _shown(history, call, asked[0]))]
        if call.ok and not asked[0].ok:
            cause = f"{call.request!r} was acknowledged, and not served ({asked[0].outcome})"
            return [Violation("lost", cause, _shown(history, call, asked[0]))]
    return []


def _known(sent: Transfer, asked: list[Transfer]) -> bool:
    """Return whether a receiver can have learned that a transfer had come to nothing."""
    return any(
        each.ended is not None
        and sent.ended is not None
        and each.ended.t > (sent.began.t if each.outcome == "failed" else sent.ended.t)
        for each in asked
    )


def _error(*calls: Transfer) -> str:
    return next((c.ended.text("error") for c in calls if c.ended and not c.ok), "")


def _shown(history: History, sent: Transfer | None, call: Transfer) -> list[str]:
    return history.lines([*(sent.events() if sent else []), *call.events()])
