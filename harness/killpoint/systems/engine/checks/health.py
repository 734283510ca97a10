"""Health of an engine: alive, ready and progressing are each reported as they are (E4)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from killpoint.checkers.finding import Finding, Inconclusive, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.engine.record import SECOND, HealthReading, Life, Strike, life, slack, some
from killpoint.verdict import Violation

_AT_ONCE = 1 * SECOND
_STUCK = 3 * SECOND
"""Nanoseconds without a token after which health must say that nothing moves."""
_NOTICED = 3 * SECOND // 10
"""Nanoseconds within which health must have noticed the death of the last replica."""
_SERVES = SECOND
"""Nanoseconds from ready to the next token, if there is work; on a slow machine, half of the time
that the start took."""
_FALTERS = SECOND
"""Nanoseconds for which health may say that it makes progress before it does: whatever can bring
the progress has just begun."""
_BACK = 3 * SECOND
"""Nanoseconds within which health must be all well again after a stopped part goes on, or a dead
one is replaced."""
_MOVES = SECOND // 2
_PAUSED = SECOND
"""Nanoseconds by which looks, which come evenly, are late together, that show that the process
which looks, and answers, hardly ran: it may take others for silent, and itself for dead."""
_REMEMBERED = 3 * SECOND
"""Nanoseconds for which that matters."""


def check_e4_health(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """E4.

    Raises:
        Inconclusive: the machine was so late that a limit passed the end of what was watched.
    """
    del ledger
    found = hangs(history)
    if found:
        return Finding(found[:1])
    of = life(scenario, history)
    rules = (_at_once, _alive, _calm_before, _moves, _dead, _serves, _again)
    for rule in rules:
        found = list(rule(scenario, history, of))
        if found:
            return Finding(found[:1])
    for strike in of.strikes:
        if doubt := _not_said(history, of, strike) or _not_noticed(history, of, strike):
            raise Inconclusive(doubt)
    stops = sum(strike.fault == "stop" for strike in of.strikes)
    deaths = sum(strike.fault == "kill" for strike in of.strikes)
    return Finding([], {"looks": len(of.looks), "stops": stops, "deaths": deaths})


def undisturbed_lies(scenario: Scenario, history: History, of: Life) -> list[Violation]:
    """Return what health said that was not so while nothing had been done to the engine."""
    rules = (_at_once, _alive, _calm_before)
    return [lie for rule in rules for lie in rule(scenario, history, of)]


def _lie(kind: str, cause: str, history: History, of: Life, look: HealthReading) -> Violation:
    lines = some(history, of, look.event, around=look.t)
    return Violation("late" if kind == "late" else "wrong-data", cause, lines)


def _at_once(_scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    for look in of.looks:
        if look.took > _AT_ONCE + slack(history, look.t - look.took, look.t):
            cause = f"the health address answered only after {look.took / 1e9:.1f} s; the limit is"
            cause += f" {_AT_ONCE / 1e9:g} s"
            yield _lie("late", cause, history, of, look)


def _alive(_scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    for look in of.looked(0, of.until):
        if not look.alive and not _paused(of, look):
            done = _done(of, look)
            cause = f"health said that it is not alive, and answered{done}"
            yield _lie("lie", cause, history, of, look)


def _calm_before(_scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """Check that before any fault health says ready, and progressing while tokens come."""
    until = of.strikes[0].t if of.strikes else of.until
    for look in of.looked(0, until):
        if _paused(of, look):
            continue
        if not look.ready:
            cause = "health said that it is not ready, and nothing had been done to it"
            yield _lie("lie", cause, history, of, look)
        if not look.progressing and look.stalled < _MOVES:
            cause = (
                "health said that nothing moves, while tokens came and nothing had been done to it"
            )
            yield _lie("lie", cause, history, of, look)


def _paused(of: Life, look: HealthReading) -> bool:
    """Return whether the process that answers was itself kept from running a moment ago."""
    gaps = [new.t - old.t for old, new in pairwise(of.looks)]
    usual = median(gaps) if gaps else SECOND
    near = of.looked(look.t - _REMEMBERED, look.t)
    late = [new.t - old.t - usual for old, new in pairwise(near)]
    return sum(gap for gap in late if gap > 2 * usual) > _PAUSED


def _moves(_scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """Check that health does not say progressing while no token comes.

    The same holds while a request of a stopped part does not move.
    """
    since = said = 0  # the last look with more tokens than before, and the first of these words
    tokens = -1
    for look in of.looks:
        if look.tokens != tokens:
            tokens, since = look.tokens, look.t
        if look.t > of.until:
            return
        said = (said or look.t) if look.progressing else 0
        if look.t - said < _FALTERS:
            continue
        limit = _STUCK + slack(history, look.t - look.stalled, look.t) + SECOND // 5
        if not look.progressing or not look.open or look.stalled <= limit:
            continue
        stopped = _stopped_at(of, look.t, limit)
        if stopped is not None:
            cause = (
                f"health said that it makes progress {(look.t - stopped.t) / 1e9:.1f} s after"
                f" {stopped.part} was stopped, with a request that had not moved for"
                f" {look.stalled / 1e9:.1f} s"
            )
            yield _lie("lie", cause, history, of, look)
        elif look.t - since > limit:
            cause = (
                f"health said that it makes progress, and no token had come for"
                f" {(look.t - since) / 1e9:.1f} s, with {look.open} requests open{_done(of, look)}"
            )
            yield _lie("lie", cause, history, of, look)


def _stopped_at(of: Life, t: int, limit: int) -> Strike | None:
    """A part of a replica that decodes, stopped for longer than the limit."""
    for strike in of.strikes:
        if strike.fault == "stop" and strike.replica.startswith("core-"):
            until = min(strike.end, strike.resumed or strike.end)
            if strike.t + limit < t <= until:
                return strike
    return None


def _dead(scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """Check that health does not say ready while the only replica is dead and not replaced yet."""
    for strike in of.strikes:
        if not _was_the_last(scenario, strike):
            continue
        came = (
            event.t
            for event in history.of("part-here")
            if event.text("target") in (strike.part, strike.replica) and event.t > strike.t
        )
        until = min(next(came, strike.end), strike.end)
        since = strike.t + SECOND + slack(history, strike.t, strike.t + SECOND)
        for look in of.looked(since, until):
            if look.ready:
                after = (look.t - strike.t) / 1e9
                cause = (
                    f"health said that it is ready {after:.1f} s after the death of {strike.part},"
                    " before another one was there"
                )
                yield _lie("lie", cause, history, of, look)


def _was_the_last(scenario: Scenario, strike: Strike) -> bool:
    """Return whether no replica that decodes was left."""
    alone = scenario.engine is not None and scenario.engine.data_parallel == 1
    return alone and strike.fault == "kill" and strike.replica.startswith("core-")


def _serves(scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """Check that tokens come once health says ready and there are requests."""
    deaths = [strike.t + _NOTICED for strike in of.strikes if _was_the_last(scenario, strike)]
    ready = False
    for at, look in enumerate(of.looks):
        fresh = any(death < look.t for death in deaths)
        became, ready = look.ready and (fresh or not ready), look.ready
        if fresh:  # what it said before the death says nothing of now
            deaths = [death for death in deaths if death >= look.t]
        if became:
            yield from _served_from(history, of, at)


def _served_from(history: History, of: Life, at: int) -> Iterator[Violation]:
    said, limit = of.looks[at], max(_SERVES, of.start_took // 2)
    struck = [strike.t for strike in of.strikes if strike.t > said.t]
    for look in of.looks[at:]:
        waited = look.t - said.t
        if look.tokens != said.tokens or look.t > min([of.until, *struck]):
            return
        if not look.open or not look.ready:
            return
        if waited > limit + slack(history, said.t, look.t):
            cause = (
                f"health said that it is ready, and {waited / 1e9:.1f} s later no token had come,"
                f" with {look.open} requests open{_done(of, look)}"
            )
            yield _lie("lie", cause, history, of, look)
            return


def _again(_scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """Once what was stopped goes on, or what died has been replaced, all is said to be well."""
    for strike in of.strikes:
        since = strike.resumed if strike.fault == "stop" else _replaced(strike)
        if since is None:
            continue
        limit = since + _BACK + slack(history, since, since + _BACK)
        looks = of.looked(since, min(limit, strike.end, of.until))
        if any(look.alive and look.ready and look.progressing for look in looks):
            continue
        if looks and min(strike.end, of.until) >= limit:
            cause = f"health did not say that all is well 3 s after {strike.part} was back"
            yield _lie("late", cause, history, of, looks[-1])


def _not_said(history: History, of: Life, strike: Strike) -> str:
    """Return why the record cannot show whether health says that all is well; empty if it can."""
    since = strike.resumed if strike.fault == "stop" else _replaced(strike)
    if since is None:
        return ""
    until, late = min(strike.end, of.until), slack(history, since, since + _BACK)
    looks = of.looked(since, min(since + _BACK + late, until))
    if not looks or any(look.alive and look.ready and look.progressing for look in looks):
        return ""
    if since + _BACK <= until < since + _BACK + late:
        watched = (until - since) / 1e9
        return (
            f"health did not say that all is well in the {watched:.1f} s for which it was watched"
            f" after {strike.part} was back, and the machine kept a party from running"
        )
    return ""


def _not_noticed(history: History, of: Life, strike: Strike) -> str:
    """Return why the record cannot show whether health notices a stop; empty if it can."""
    if strike.fault != "stop" or not strike.replica.startswith("core-"):
        return ""
    until = min(strike.end, strike.resumed or strike.end, of.until)
    least = strike.t + _STUCK + SECOND // 5
    looks = of.looked(strike.t + _FALTERS, until)
    stuck = any(look.open and look.t - look.stalled <= strike.t + _FALTERS for look in looks)
    if not stuck or not all(look.progressing for look in looks):
        return ""
    if least < until <= least + slack(history, strike.t, until):
        return (
            f"health said that it makes progress for the {(until - strike.t) / 1e9:.1f} s that"
            f" {strike.part} was stopped, and the machine kept a party from running"
        )
    return ""


def _replaced(strike: Strike) -> int | None:
    whole = strike.whole
    return whole.t if whole is not None and whole.data.get("yes") else None


def _done(of: Life, look: HealthReading) -> str:
    done = [strike for strike in of.strikes if strike.t < look.t]
    return f", after {done[-1].fault} of {done[-1].part}" if done else ""
