"""Judge of servers with replicas: one is killed, and the others go on (E3)."""

from __future__ import annotations

from dataclasses import dataclass

from killpoint.checkers.finding import Finding, Inconclusive
from killpoint.ledger import Ledger
from killpoint.systems.server.record import (
    SECOND,
    Life,
    Request,
    Strike,
    answers,
    counted_ends,
    kind_of,
    lines,
)
from killpoint.verdict import Kind, Violation

_TOLD_WITHIN = 5.0
_HALF_WITHIN = 10.0
_BACK_WITHIN = 15.0
"""Seconds, beside twice the time of the server's start, within which a replica is there again and,
once its process is, all is as before. The first is the engine's own (E3 of engines)."""
_ARRIVES = 1.0
"""Seconds after which nothing arrives any more that a dead replica had sent."""
_STALE = 0.5
"""Seconds by which a server's metrics are older than the answer that carries them."""
_WINDOW, _LONG_WINDOW = SECOND, 2 * SECOND
_WHOLE = 0.7
"""Share of the undisturbed rate of text that counts as whole: more than half, as one of two
replicas gives, and less than all, since no two seconds are alike. The best two seconds count."""
_HELD_UP = SECOND // 2
"""Lateness of a plain wait, ns, beyond which the machine has no time for a server either."""
_FAILED = ("error", "torn", "no-answer")
_TURNED_AWAY = (429, 503)
"""Statuses of a request that was turned away before any replica had it: that costs goodput."""


@dataclass
class _Fault:
    """Death of a replica beside others, and the end of the load by which it is judged."""

    of: Life
    strike: Strike
    until: int

    def bound(self, since: int, seconds: float) -> int:
        """Return when so many seconds are over on this machine, as slow as it was then."""
        end = since + int(seconds * self.of.slow * SECOND)
        return end + self.of.history.allowance(since, end)

    def found(self, since: int, window: int, rate: float) -> int | None:
        """Return when the first window under load began in which text came at this rate."""
        window = int(window * self.of.slow)
        for t, _ in self.of.texts:
            enough = since <= t and t + window <= self.until
            if enough and self.of.text_between(t, t + window) >= rate * window:
                return t
        return None

    def shows(self, kind: Kind, cause: str, requests: list[Request] | None = None) -> Violation:
        """Return a violation with its evidence."""
        return Violation(kind, cause, lines(self.of, *answers(self.of, requests or [])))


def check_e3_survives_a_replica(of: Life, ledger: Ledger) -> Finding:
    """E3: requests at other replicas succeed, its own are retried or fail; goodput comes back."""
    del ledger
    strike = of.first("kill")
    others = [part for part in of.alive_at(strike.t - 1) if part != strike.part]
    if kind_of(strike.part) != "core" or not any(kind_of(part) == "core" for part in others):
        raise Inconclusive("no replica was killed beside another one")
    fault = _Fault(of, strike, of.until if of.asked_until is None else of.asked_until)
    wrong = _unended(fault) or _late(fault) or _elsewhere(fault) or _service(fault)
    return Finding([wrong] if wrong else [], {"kills": 1})


def _unended(fault: _Fault) -> Violation | None:
    """Return a violation if requests in flight were neither retried nor failed."""
    flying = [each for each in fault.of.load() if each.open_at(fault.strike.t)]
    hung = [each for each in flying if each.end == "hang"]
    if hung:
        cause = f"{len(hung)} of {len(flying)} requests in flight as {fault.strike.part} was killed"
        return fault.shows("hang", f"{cause} were neither retried nor failed", hung)
    return None


def _late(fault: _Fault) -> Violation | None:
    """Return a violation if requests failed over 5 s after the death, or after they were asked.

    A request that was asked once the death was known had no dead replica: :func:`_elsewhere`.
    """
    late: list[Request] = []
    known = min(fault.bound(fault.strike.t, _TOLD_WITHIN), fault.until)
    for each in fault.of.load():
        since = max(fault.strike.t, each.asked)
        failed = _failed(each) and each.asked < known
        if failed and (each.ended or 0) > fault.bound(since, _TOLD_WITHIN):
            late.append(each)
    if not late:
        return None
    cause = f"{_count(late)} failed later than 5 s after {fault.strike.part} was killed, or after"
    return fault.shows("late", f"{cause} it was asked: {counted_ends(late)}", late)


def _elsewhere(fault: _Fault) -> Violation | None:
    """Return a violation if requests that another replica had failed all the same."""
    of, strike = fault.of, fault.strike
    ended = of.front_ended
    if ended is not None and ended.t < fault.until:
        return None  # no server is there: that is reported as such
    dead, known = fault.bound(strike.t, _ARRIVES), fault.bound(strike.t, _TOLD_WITHIN)
    asked = [each for each in of.load() if known < each.asked < fault.until]
    failed = [each for each in asked if _failed(each) and each.status not in _TURNED_AWAY]
    if failed:
        cause = f"{_count(failed)} of {len(asked)} that were asked more than 5 s after"
        cause += f" {strike.part} was killed failed, although another replica was there"
        return fault.shows("lost", f"{cause}: {failed[0].why}", failed)
    flying = [each for each in of.load() if each.open_at(strike.t)]
    lost = [each for each in flying if _failed(each)]
    served = [each for each in lost if each.last > dead]
    if served:
        cause = f"{_count(served)} still got text 1 s after {strike.part} was killed, from another"
        return fault.shows("lost", f"{cause} replica, and failed: {served[0].why}", served)
    most = _largest_share(fault)
    if most is not None and len(lost) > most:
        cause = f"{len(lost)} of {len(flying)} requests in flight failed as {strike.part} was"
        cause += f" killed, and by the server's metrics no replica had more than {most}"
        return fault.shows("lost", f"{cause}: {lost[0].why}", lost)
    return None


def _largest_share(fault: _Fault) -> int | None:
    """Return the most requests that one replica can have had as it was killed; None: not known."""
    t = fault.strike.t
    looked = [(at, shares) for at, shares in fault.of.shares if at <= t and len(shares) > 1]
    if not looked:
        return None
    at, shares = looked[-1]
    # Requests that came or went since metrics were made may be counted there, or not.
    at -= int(_STALE * fault.of.slow * SECOND)
    changed = sum(at < each.asked <= t for each in fault.of.load())
    changed += sum(at < (each.ended or 0) <= t for each in fault.of.load())
    return int(max(shares)) + changed if sum(shares) > 0 else None


def _service(fault: _Fault) -> Violation | None:
    before = fault.of.undisturbed()
    return _half(fault, before) or _whole(fault, before)


def _half(fault: _Fault, before: float) -> Violation | None:
    """Return a violation unless half as much text came within 10 s.

    Raises:
        Inconclusive: the load was not watched for so long.
    """
    of, strike = fault.of, fault.strike
    due = fault.bound(strike.t, _HALF_WITHIN)
    found = fault.found(strike.t, _WINDOW, before / 2)
    if found is not None and found <= due:
        return None
    killed = f"after {strike.part} was killed"
    if found is not None:
        cause = f"goodput was half of what it had been only {(found - strike.t) / SECOND:.1f} s"
        return fault.shows("late", f"{cause} {killed}")
    if of.front_ended is not None and of.front_ended.t < fault.until:
        return fault.shows("starved", f"{killed} the server ended, and with it the other replicas")
    if fault.until < due:
        seconds = (fault.until - strike.t) / SECOND
        raise Inconclusive(f"the load ended {seconds:.1f} s after the death, before it was judged")
    return fault.shows("starved", f"10 s {killed} goodput was still below half of what it had been")


def _whole(fault: _Fault, before: float) -> Violation | None:
    """Return a violation unless as much text came as before, with the replica back.

    Raises:
        Inconclusive: the load was not watched for long enough, or the machine had no time.
    """
    of, strike = fault.of, fault.strike
    back = _back(fault)
    if back is None and not of.restarts:
        return None  # it does not promise to come back
    since = strike.t if back is None else back
    due = fault.bound(since, _BACK_WITHIN) + 2 * of.took
    if back is not None and fault.found(back, _LONG_WINDOW, _WHOLE * before) is not None:
        return None
    if fault.until < due:
        raise Inconclusive(f"the load ended before it was known whether {strike.part} was replaced")
    if of.history.lateness(since, fault.until) > _HELD_UP:
        raise Inconclusive("the machine had no time for a server that was whole")
    if back is None:
        cause = f"{strike.part} had not come back {(due - strike.t) / SECOND:.0f} s after its death"
        return fault.shows("starved", f"{cause}, although the server promises to start it again")
    cause = f"with {strike.part} back, goodput stayed below {_WHOLE:.0%} of what it had been"
    return fault.shows("starved", cause)


def _back(fault: _Fault) -> int | None:
    """Return when all parts of before the death lived again, after it was seen; None: never."""
    of, part = fault.of, fault.strike.part
    had = {name for name in of.alive_at(fault.strike.t - 1) if kind_of(name) != "helper"}
    ends = [e.t for e in of.history.of("part-ended") if e.text("part") == part]
    dead = next((t for t in ends if t >= fault.strike.t), None)
    if dead is None:
        return None
    return next((t for t, parts in of.trees if dead <= t <= fault.until and had <= {*parts}), None)


def _failed(request: Request) -> bool:
    return request.end in _FAILED


def _count(requests: list[Request]) -> str:
    return "1 request" if len(requests) == 1 else f"{len(requests)} requests"
