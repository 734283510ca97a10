"""Histories of many requests at once, against what the model alone gives (H6).

Each request ends once: with the tokens that the model alone gives for its prompt, all of them or,
if it was cancelled, the first; by an error only if a part that it may have been at was struck. A
part that was killed comes back, however often; and while a request is open and every part is there,
something moves: what a request held that has ended is free for the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from killpoint.checkers.finding import Finding, hangs
from killpoint.checkers.overlap import overlap, span
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.engine.checks.answers import check_e1_every_request_ends
from killpoint.systems.engine.checks.faults import not_back
from killpoint.systems.engine.checks.health import undisturbed_lies
from killpoint.systems.engine.checks.tokens import check_e2_tokens
from killpoint.systems.engine.record import SECOND, Life, Request, life, slack, some
from killpoint.verdict import Violation, counted

_STANDS_STILL = 4 * SECOND
"""Nanoseconds without a token or an end after which an engine whose parts are all there does not
move: twice what health takes to say so."""
_APART = 6 * SECOND
"""The same where prefill and decode are apart: blocks on their way to a replica that does not take
them any more are held for as long as E9 lets any be held, 5 s."""


def check_h6_engine_history(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """H6: what the clients of the engine saw could have been."""
    found = hangs(history)
    if found:
        return Finding(found[:1])
    of = life(scenario, history)
    for rule in _RULES:
        found = found or list(rule(scenario, history, of))[:1]
    if found:
        return Finding(found)
    for check in (check_e1_every_request_ends, check_e2_tokens):
        told = check(scenario, history, ledger)
        if told.violations:
            return told
    spans = [span(request.asked, request.answer) for request in of.requests]
    cancelled = sum(request.cancelled is not None for request in of.requests)
    ids = Counter(request.asked.text("id") for request in of.requests)
    again = sum(number - 1 for id, number in ids.items() if id)
    counts = {"requests": len(of.requests), "cancelled": cancelled, "ids used again": again}
    deaths = {"deaths": len(of.strikes)} if of.strikes else {}
    return Finding([], counts | overlap(spans) | deaths)


def _ends_once(_scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """A request has one end."""
    ends = Counter(event.number("n") for event in history.of("answer", role="front-end"))
    for request in of.requests:
        if ends[request.n] > 1:
            cause = f"request {request.n} ended {counted(ends[request.n], 'times')}"
            yield Violation("duplicate", cause, some(history, of, around=request.asked.t))


def _spared(_scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """A request fails, or is refused, only if something was done to the engine while it was open.

    Nobody is spared whom the death of a replica that is not back yet may have met.
    """
    for request in of.requests:
        answer = request.answer
        if not request.failed or answer is None or answer.t >= of.until:
            continue
        if not _met(of, request):
            how = "was refused" if answer.text("outcome") == "refused" else "failed"
            cause = (
                f"beside {counted(_beside(of, request), 'others')}, request {request.n} {how},"
                f" and nothing had been done to it: {answer.text('error')}"
            )
            lines = some(history, of, request.asked, answer, around=answer.t)
            yield Violation("lost", cause, lines)


def _met(of: Life, request: Request) -> bool:
    """Return whether a replica was struck that may have had the request."""
    answer = request.answer
    assert answer is not None
    return any(
        strike.kind != "coordinator"
        and strike.t < answer.t
        and request.asked.t < (strike.whole.t if strike.whole is not None else strike.end)
        for strike in of.strikes
    )


def _beside(of: Life, request: Request) -> int:
    assert request.answer is not None
    t = request.answer.t
    return sum(other.open_at(t) for other in of.requests if other is not request)


def _back(_scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """A part that was killed comes back."""
    for strike in of.strikes:
        if strike.fault == "kill":
            yield from not_back(history, of, strike)


def _moves(scenario: Scenario, history: History, of: Life) -> Iterator[Violation]:
    """While a request is open, and no part is missing, tokens come, or ends."""
    bound = _APART if scenario.engine is not None and scenario.engine.prefill else _STANDS_STILL
    moved = [event.t for event in history.of("first", "answer", "whole")]
    moved += [new.t for old, new in pairwise(of.looks) if new.tokens != old.tokens]
    moved.sort()
    for look in of.looks:
        news = bisect_right(moved, look.t)
        if not look.open or look.t > of.until:
            continue
        still = min(look.stalled, look.t - moved[news - 1] if news else look.stalled)
        since = look.t - still
        if _struck(of, since, look.t) or still <= bound + slack(history, since, look.t):
            continue
        open_ = [request for request in of.requests if request.open_at(look.t)]
        cause = (
            f"no token came and nothing ended for {still / 1e9:.1f} s, with"
            f" {counted(len(open_), 'requests')} open and every part there; the longest waits"
            f" request {open_[0].n}, of {open_[0].asked.number('prompt')} tokens"
        )
        yield Violation("starved", cause, some(history, of, look.event, around=look.t))


def _struck(of: Life, since: int, until: int) -> bool:
    """Return whether a part was, or may have been, missing in an interval."""
    for strike in of.strikes:
        back = strike.whole.t if strike.whole is not None else strike.end
        if strike.t <= until and since < back:
            return True
    return False


_RULES: tuple[Callable[[Scenario, History, Life], Iterable[Violation]], ...] = (
    _ends_once,
    _spared,
    _back,
    _moves,
    undisturbed_lies,
)
