"""Requests whose blocks are under way at once: what became of each could have been (H4).

A send of blocks and the receives of its request, on the rank that it goes to, explain each other: a
send that ended well was asked for, and gave its blocks to one receive; one that did not had its
whole lease in which nobody asked; a receive that came back without them had no transfer to wait
for, or had not waited for long enough. Two sends of one id at once in one direction are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint.checkers.finding import evidence
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.pipe.checks.blocks import Transfer, check_requests_served, leases, transfers
from killpoint.verdict import Kind, Violation

_SECONDS = 1_000_000_000
_WHOLE = 200_000_000
"""ns after which the blocks of a send have come."""
_NOTICED = 100_000_000
"""ns within which a receive that waits notices that blocks have come."""
_SERVED = 250_000_000
"""ns from the first time that they are asked for until they are handed out."""
_LATE = 300_000_000
_EARLY = 0.02
"""Seconds before the end of its lease from which on a transfer may be over by it."""
_NEVER = 1 << 62


class Requests(msgspec.Struct):
    """Transfers of a play, both ways."""

    history: History
    sends: list[Transfer]
    asks: list[Transfer]
    taker: dict[str, str]
    """The rank that each rank sends to."""
    until: int
    """Time before the first end of a rank, ns; what comes later, that may explain."""

    @classmethod
    def of(cls, scenario: Scenario, history: History, until: int) -> Requests:
        """Read the transfers off a history."""
        made = [each for each in transfers(history) if each.outcome != "no-pipe"]
        roles = scenario.roles()
        return cls(
            history,
            [each for each in made if each.op == "blocks-send"],
            [each for each in made if each.op == "blocks-receive"],
            {role: roles[(place + 1) % len(roles)] for place, role in enumerate(roles)},
            until,
        )

    def asked(self, send: Transfer) -> list[Transfer]:
        """Return the receives of a send's request on the rank that it goes to."""
        taker = self.taker[send.role]
        return [ask for ask in self.asks if ask.role == taker and ask.request == send.request]

    def taken(self, send: Transfer) -> Transfer | None:
        """Return the receive that got a send's blocks."""
        asked = self.asked(send)
        return next((ask for ask in asked if ask.ok and ask.digests == send.digests), None)

    def told(self, send: Transfer) -> Transfer | None:
        """Return the receive that was told that a send's blocks had been harmed."""
        later = [ask for ask in self.asked(send) if _end(ask) > send.began.t]
        failed = (ask for ask in later if ask.outcome == "failed")
        return next(failed, None) if send.forged else None

    def looks(self, ask: Transfer, since: int) -> bool:
        """Return whether a receive saw what there was from this time on.

        It looks at least once when it begins, and again until its own time is over.
        """
        noticed = since + _NOTICED + self.history.allowance(since, _end(ask))
        return ask.began.t >= since or _over(ask) > noticed

    def alone(self, send: Transfer) -> bool:
        """Return whether no other send of the same id went the same way meanwhile."""
        return not any(
            other is not send
            and (other.role, other.request) == (send.role, send.request)
            and other.began.t <= _end(send)
            and send.began.t <= _end(other)
            for other in self.sends
        )

    def says(self, kind: Kind, cause: str, *calls: Transfer | None) -> Violation:
        """Return a violation with the calls that show it."""
        events = [event for call in calls if call is not None for event in call.events()]
        return Violation(kind, cause, evidence(self.history, events))


def broken_requests(requests: Requests) -> Iterator[Violation]:
    """Yield what cannot be explained."""
    yield from check_requests_served(
        requests.history, requests.sends, [each for each in requests.asks if each.ended]
    )
    yield from leases(requests.history, requests.sends)
    for send in requests.sends:
        if requests.alone(send):
            yield from _failed(requests, send)
            yield from _acknowledged(requests, send)
            yield from _unserved(requests, send)
    yield from _told_of_failures(requests)
    for ask in requests.asks:
        yield from _deadline(requests, ask)


def _failed(requests: Requests, send: Transfer) -> Iterator[Violation]:
    """A transfer fails of its lease, or of what was done to its blocks; then nobody has them."""
    if send.ended is None or send.ok or send.ended.t >= requests.until:
        return
    taken, lease = requests.taken(send), send.within("lease") or 0.0
    said = f"{send.outcome} {send.error}".rstrip()
    if taken is not None:
        cause = f"{taken.role} was served {send.request!r}, and its sender told that it was not"
        yield requests.says("lost", f"{cause}: {said}", send, taken)
    elif send.seconds < lease - _EARLY and not send.forged:
        cause = f"{send.role}'s transfer of {send.request!r} failed after {send.seconds:.2f} s of a"
        cause += f" lease of {lease:g} s, and nothing had been done to its blocks"
        yield requests.says("lost", f"{cause}: {said}", send)


def _acknowledged(requests: Requests, send: Transfer) -> Iterator[Violation]:
    """Blocks that were acknowledged were asked for, and are there for who asks for them."""
    if send.ended is None or not send.ok:
        return
    if send.forged and requests.taken(send) is None:
        cause = f"{send.request!r} was acknowledged to {send.role}, and came {send.forged}"
        yield requests.says("no-error", cause, send)
    asked = requests.asked(send)
    if not any(ask.began.t < send.ended.t and _end(ask) > send.began.t for ask in asked):
        cause = f"{send.request!r} was acknowledged to {send.role}, and nobody had asked for it"
        yield requests.says("lost", cause, send)
    if requests.taken(send) is not None:
        return
    for ask in asked:
        soon = _SERVED + requests.history.allowance(send.began.t, _end(ask))
        ended = min(_lease_end(send), requests.until)
        if ask.outcome == "timeout" and send.ended.t + soon < ask.began.t and _end(ask) < ended:
            cause = f"{send.request!r} was acknowledged to {send.role}, and not served to"
            yield requests.says("lost", f"{cause} {ask.role}, who asked again", send, ask)


def _unserved(requests: Requests, send: Transfer) -> Iterator[Violation]:
    """Blocks that have come, and that somebody asks for, are handed out soon, and to nobody late.

    A receive without time asks, too: one that comes soon after it finds them. If they were harmed,
    it is the failure that is told.
    """
    lease_end = _lease_end(send)
    granted = requests.history.allowance(send.began.t, min(_end(send), lease_end))
    whole = send.began.t + _WHOLE + granted
    asked = [
        ask
        for ask in requests.asked(send)
        if ask.began.t < lease_end and requests.looks(ask, since=whole)
    ]
    if not asked:
        return
    first = max(asked[0].began.t, whole)
    due = first + _SERVED + granted
    taken = requests.taken(send) or requests.told(send)
    before = min(lease_end - _LATE, requests.until, _end(taken) if taken else _NEVER)
    for ask in asked:
        if ask.outcome == "timeout" and due < _over(ask) < before:
            cause = f"{ask.role} asked for {send.request!r} with timeout {ask.timeout:g} s and was"
            cause += f" given nothing, {_ago(first, _over(ask))} after its blocks could be had"
            cause += f", {send.forged} as they were" if send.forged else ""
            yield requests.says("starved", cause, send, asked[0], ask)
    in_vain = send.ended is not None and not send.ok and not send.forged
    if in_vain and due < min(lease_end, requests.until):
        cause = f"{send.request!r} was asked for {_ago(first, lease_end)} before its lease ended,"
        cause += f" and never served ({send.outcome}: {send.error})"
        yield requests.says("lost", cause, send, *asked[:2])


def _told_of_failures(requests: Requests) -> Iterator[Violation]:
    """A receive fails of a transfer that failed, and is told of it once."""
    told: list[Transfer] = []
    for ask in requests.asks:
        if ask.ended is None or ask.outcome in ("ok", "timeout"):
            continue
        if ask.ended.t >= requests.until:
            continue
        failed = [
            send
            for send in requests.sends
            if send.began.t < ask.ended.t
            and not send.ok
            and send not in told
            and ask in requests.asked(send)
        ]
        if failed and ask.outcome == "failed":
            told.append(failed[0])
            continue
        cause = f"{ask.role}'s receive of {ask.request!r} ended with {ask.outcome}, and no transfer"
        yield requests.says("lost", f"{cause} of it had failed: {ask.error}", ask)


def _deadline(requests: Requests, ask: Transfer) -> Iterator[Violation]:
    """A receive ends in its own time, and runs out of that at its end."""
    if ask.ended is None or ask.timeout is None:
        return
    allowed = (_LATE + requests.history.allowance(ask.began.t, ask.ended.t)) / _SECONDS
    early = ask.outcome == "timeout" and ask.seconds < ask.timeout - _EARLY
    if early or ask.seconds > ask.timeout + allowed:
        cause = f"{ask.role}'s receive of {ask.request!r} with timeout {ask.timeout:g} s ended"
        cause += f" ({ask.outcome}) after {ask.seconds:.2f} s"
        yield requests.says("late", cause, ask)


def _end(call: Transfer) -> int:
    return call.ended.t if call.ended is not None else _NEVER


def _over(call: Transfer) -> int:
    """Return the time at which a call ended, or was to end by its own timeout, ns."""
    if call.timeout is None:
        return _end(call)
    return min(_end(call), call.began.t + int(call.timeout * _SECONDS))


def _lease_end(send: Transfer) -> int:
    return send.began.t + int((send.within("lease") or 0.0) * _SECONDS)


def _ago(since: int, until: int) -> str:
    return f"{(until - since) / _SECONDS:.2f} s"
