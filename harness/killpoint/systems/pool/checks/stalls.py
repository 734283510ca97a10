"""Stalled roles: deadlines are kept, service comes back, a shutdown ends (W5)."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Inconclusive
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.pool.checks.deaths import left, left_after_stop, slack
from killpoint.systems.pool.checks.replies import stale
from killpoint.systems.pool.record import Act, Life, ends, pool_lines, resumed
from killpoint.verdict import Violation

_EARLY = 0.001
_LATE = 0.1
_LEFT = 5.0
"""Seconds beyond its graces that a shutdown may take."""
_START_LEFT = 0.5
"""Seconds beyond its graces that a start may take after its deadline, to end what it began."""


class Stall(msgspec.Struct):
    """A time in which a role did not go on."""

    role: str
    since: int
    until: int | None


def stalls(history: History, life: Life) -> list[Stall]:
    """Return the intervals of a pool's life in which roles were stopped, held or busy for ever."""
    spinning = [
        Stall("a spinning worker", act.began.t, None)
        for act in life.acts
        if act.op in ("call", "submit") and act.method == "spin"
    ]
    return spinning + [
        Stall(event.text("target"), event.t, resumed(history, event.text("target"), event.t))
        for event in history.of("fault")
        if event.text("fault") in ("stop", "hold")
        and event.t >= life.start.began.t
        and (life.until is None or event.t < life.until)
    ]


def grace_of(scenario: Scenario) -> float:
    """Seconds that a worker is given to leave, by itself and after SIGTERM together."""
    return 2 * (scenario.pool.grace if scenario.pool else 0.0)


def deadline_kept(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    """A call that needs the one who is stopped ends at its deadline; afterwards all is well."""
    stopped = [stall for stall in stalls(history, life) if stall.role != "executor"]
    if not stopped:
        raise Inconclusive("no worker was stopped")
    first = stopped[0]
    if life.start.pending_at(first.since) and not life.start.ok:
        return _start_ended(scenario, history, life)
    waited = [
        act
        for act in life.served()
        if act.timeout is not None
        and act.ended is not None
        and act.ended.t >= first.since
        and (first.until is None or act.began.t <= first.until)
    ]
    for act in waited:
        found = _kept(history, act)
        if found:
            return found
    if not any(act.outcome == "timeout" for act in waited):
        raise Inconclusive(f"no call ran into its deadline while {first.role} was stopped")
    return stale(history, life) or _resumed(history, life, first)


def _kept(history: History, act: Act) -> list[Violation]:
    """Return a violation if an act with a deadline ended early, late, or with another error."""
    assert act.ended is not None
    due = max(act.timeout or 0.0, 0.0)
    took, lines = act.seconds, pool_lines(history, act)
    allowed = due + _LATE + slack(history, act.ended.t - int(took * 1e9), act.ended.t) / 1e9
    if took > allowed:
        cause = f"{act.words()} with a deadline of {due:g} s took {took:.2f} s"
        cause += "" if act.outcome == "timeout" else f", and ended with: {act.outcome}"
        return [Violation("late", cause, lines)]
    if act.outcome == "timeout" and took < due - _EARLY:
        cause = f"{act.words()} with a deadline of {due:g} s gave up after {took:.3f} s: too early"
        return [Violation("late", cause, lines)]
    if act.outcome not in ("ok", "timeout") and act.op != "health":
        cause = f"{act.words()} ended with {act.outcome} before its deadline, with nobody dead"
        return [Violation("lost", cause, lines)]
    return []


def _start_ended(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    act = life.start
    if act.ended is None or act.timeout is None:
        raise Inconclusive("the start had no deadline, or did not end")
    took = act.seconds
    limit = act.timeout + grace_of(scenario) + _START_LEFT
    limit += slack(history, act.began.t, act.ended.t) / 1e9
    if act.timeout - _EARLY <= took <= limit:
        return left(history, life, act.ended, "the start had given up")
    cause = f"the start with a deadline of {act.timeout:g} s took {took:.2f} s"
    cause += f", and ended with: {act.outcome}"
    return [Violation("late", cause, pool_lines(history, act))]


def _resumed(history: History, life: Life, stall: Stall) -> list[Violation]:
    """Check that calls have their values again once no role is stopped."""
    if stall.until is None:
        return []
    stop = life.stop_began()
    later = [
        act
        for act in life.served()
        if act.began.t > stall.until and (stop is None or act.began.t < stop)
    ]
    if not later:
        raise Inconclusive(f"no call was made after {stall.role} had gone on")
    others = [other for other in stalls(history, life) if other.since > stall.until]
    bad = next((act for act in later if not act.ok and not _beside(act, others)), None)
    if bad is None:
        return []
    cause = f"service did not come back: {stall.role} had gone on, and {bad.words()} ended with"
    return [Violation("starved", f"{cause} {bad.outcome}", pool_lines(history, bad))]


def _beside(act: Act, those: list[Stall]) -> bool:
    """Return whether one of these roles was stopped while the act went on."""
    end = act.ended.t if act.ended is not None else None
    return any(
        (end is None or stall.since < end) and (stall.until is None or act.began.t < stall.until)
        for stall in those
    )


def stops_in_time(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    """Check that each shutdown ends within its grace + 5 s, and the last one leaves no process."""
    stops = life.stops()
    if not stops:
        raise Inconclusive("the pool was not told to stop")
    for stop in stops:
        found = _in_time(scenario, history, life, stop)
        if found:
            return found
    last = stops[-1]
    if last.ended is not None and not last.ok:
        cause = f"the shutdown ended with {last.outcome}: {last.error}"
        return [Violation("no-error", cause, pool_lines(history, last))]
    return stale(history, life) or left_after_stop(history, life)


def _in_time(scenario: Scenario, history: History, life: Life, stop: Act) -> list[Violation]:
    if stop.ended is None:
        return []
    # A shutdown whose own process was stopped could not go on before that one did.
    own = [s.until for s in stalls(history, life) if s.role == "executor" and s.until is not None]
    since = max([stop.began.t, *(t for t in own if t < stop.ended.t)])
    limit = grace_of(scenario) + _LEFT
    took = (stop.ended.t - since) / 1e9
    if took <= limit + slack(history, since, stop.ended.t) / 1e9:
        return []
    cause = f"the shutdown took {took:.1f} s; its graces and 5 s are {limit:g} s"
    return [Violation("late", cause, pool_lines(history, stop))]


def unaffected(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    """Check that every call has its value, or ends at its own deadline, and no worker is lost."""
    if life.start.ended is not None and not life.start.ok:
        cause = f"the start ended with {life.start.outcome}: {life.start.error}"
        return [Violation("lost", cause, pool_lines(history, life.start))]
    for stall in stalls(history, life):
        if stall.until is None and stall.role.startswith("worker"):
            raise Inconclusive(f"{stall.role} was stopped, and never went on")
    stop = life.stop_began() or history.events[-1].t + 1
    for rank, event in ends(history, life).items():
        if event.t < stop:
            cause = f"worker-{rank} was gone although nothing was done to it"
            return [Violation("lost", cause, history.lines([*history.of("fault"), event]))]
    if life.callbacks and life.callbacks[0].t < stop:
        cause = "the failure callback was called although no worker had failed"
        return [Violation("lost", cause, history.lines([*history.of("fault"), life.callbacks[0]]))]
    served = [act for act in life.served() if act.began.t < stop and act.ended is not None]
    for act in served:
        if not act.ok and not (act.outcome == "timeout" and act.timeout is not None):
            cause = f"{act.words()} ended with {act.outcome}: {act.error}"
            return [Violation("lost", cause, pool_lines(history, act))]
    if not served:
        raise Inconclusive("no call was made of the pool")
    if not served[-1].ok:
        if _beside(served[-1], stalls(history, life)):
            raise Inconclusive("no call was made after the stopped role had gone on")
        cause = f"service did not come back: {served[-1].words()} ended with timeout"
        return [Violation("starved", cause, pool_lines(history, served[-1]))]
    return stale(history, life)
