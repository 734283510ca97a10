"""Faults are survived: requests elsewhere succeed, and service is half, then whole again (E3)."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Checker, Finding, Inconclusive
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.engine.checks.answers import check_e1_every_request_ends
from killpoint.systems.engine.checks.health import check_e4_health
from killpoint.systems.engine.checks.tokens import check_e2_tokens
from killpoint.systems.engine.record import SECOND, Life, Request, Strike, life, slack, some
from killpoint.verdict import Violation, counted

_TOLD_WITHIN = 5 * SECOND
_HALF_WITHIN = 10 * SECOND
_BACK_WITHIN = 15 * SECOND
"""Nanoseconds within which a part is back, plus twice the time that it took before, or, of one that
has not come back twice, that the engine's start took: where that is slow, so is a replica's."""
_WINDOW = 2 * SECOND
_WHOLE = 0.8
"""Part of the goodput before a fault that must be back over two seconds, less the requests that
come at once: requests come evenly, their ends do not quite."""
_BESIDE: dict[str, Checker] = {
    "E1": check_e1_every_request_ends,
    "E2": check_e2_tokens,
    "E4": check_e4_health,
}


class Goodput(msgspec.Struct):
    """Requests per second that ended well, around one fault."""

    before: float
    during: float
    after: float
    half: int | None
    """Time at which the goodput was half of that before again, ns; None: never."""
    back: float
    """Seconds until the engine was whole; negative if it never was."""

    def words(self, strike: Strike) -> str:
        """Return a description of the goodput around a fault, for people."""
        back = f"whole after {self.back:.1f} s" if self.back >= 0 else "never whole"
        return (
            f"{strike.kind} {_PAST.get(strike.fault, strike.fault)}: {self.before:.1f} requests/s"
            f" before, {self.during:.1f} during, {self.after:.1f} after; {back}"
        )


_PAST = {"kill": "killed", "stop": "stopped"}


def check_e3_survives_faults(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """E3; and what else the scenario says judges it."""
    counts: dict[str, int] = {}
    for id in ("E1", *(each for each in scenario.judges if each in ("E2", "E4"))):
        found = _BESIDE[id](scenario, history, ledger)
        counts |= found.counts
        if found.violations:
            return found
    of = life(scenario, history)
    kills = [strike for strike in of.strikes if strike.fault == "kill"]
    if not kills:
        raise Inconclusive("nothing was done to the engine")
    told: list[str] = []
    for strike in kills:
        goodput = measured(of, strike)
        told.append(goodput.words(strike))
        wrong = (
            _failed_late(history, of, strike)
            or _failed_elsewhere(scenario, history, of, strike)
            or _service(scenario, history, of, strike, goodput)
        )
        if wrong:
            return Finding(wrong)
    counts["kills"] = len(kills)
    return Finding([], counts, told)


def measured(of: Life, strike: Strike) -> Goodput:
    """Goodput around a fault.

    Raises:
        Inconclusive: too few requests came before it to know what it was.
    """
    begin = max(strike.t - _WINDOW, of.requests[0].asked.t)
    before = min(of.rate, _rate(of, begin, strike.t))  # what had waited may have come then, too
    if of.came_well(begin, strike.t) < 4:
        raise Inconclusive(f"hardly a request had ended before {strike.fault} of {strike.part}")
    whole = strike.whole
    recovered = whole is not None and bool(whole.data.get("yes"))
    until = whole.t if whole is not None and recovered else strike.end
    half = _half(of, strike, before)
    back = (until - strike.t) / SECOND if recovered else -1.0
    after = _rate(of, until, min(until + _WINDOW, strike.end)) if recovered else 0.0
    return Goodput(before, _rate(of, strike.t, until), after, half, back)


def _rate(of: Life, since: int, until: int) -> float:
    return of.came_well(since, until) / max((until - since) / SECOND, 0.001)


def _half(of: Life, strike: Strike, before: float) -> int | None:
    """Return when a second with half the earlier goodput began, ns; None if none did."""
    t = strike.t
    while t + SECOND <= strike.end:
        if _rate(of, t, t + SECOND) >= before / 2:
            return t
        t += SECOND // 10
    return None


def _failed_late(history: History, of: Life, strike: Strike) -> list[Violation]:
    """Return a violation if a request failed over 5 s after the death, or after it was asked."""
    for request in of.requests:
        answer = request.answer
        if not request.failed or answer is None or not strike.t < answer.t <= strike.end:
            continue
        since = max(strike.t, request.asked.t)
        if answer.t - since > _TOLD_WITHIN + slack(history, since, answer.t):
            cause = (
                f"request {request.n} failed only {(answer.t - since) / 1e9:.1f} s after"
                f" {strike.part} was dead: {answer.text('error')}"
            )
            return [
                Violation("late", cause, some(history, of, request.asked, answer, around=since))
            ]
    return []


def _failed_elsewhere(
    scenario: Scenario, history: History, of: Life, strike: Strike
) -> list[Violation]:
    """Return a violation if a request failed that no dead replica can have had."""
    if not _others(scenario, strike):
        return []
    known = _known(history, strike)
    for request in of.requests:
        answer = request.answer
        if not request.failed or answer is None or answer.text("outcome") == "refused":
            continue
        spared = strike.kind == "coordinator" and strike.t < answer.t <= strike.end
        spared = spared or known < request.asked.t < strike.end
        if spared and not _met_another(history, of, request, strike):
            after = (request.asked.t - strike.t) / 1e9
            when = f"{abs(after):.1f} s {'after' if after >= 0 else 'before'}"
            cause = (
                f"request {request.n}, asked {when} the death of {strike.part}, failed"
                f" although another replica was there: {answer.text('error')}"
            )
            return [
                Violation("lost", cause, some(history, of, request.asked, answer, around=known))
            ]
    return []


def _known(history: History, strike: Strike) -> int:
    """Return when no request was sent any more to what had been struck, ns."""
    return strike.t + SECOND + slack(history, strike.t, strike.t + SECOND)


def _met_another(history: History, of: Life, request: Request, strike: Strike) -> bool:
    """Return whether a request may have failed of what was done to a replica at another time."""
    answer = request.answer
    return answer is not None and any(
        each is not strike
        and each.kind != "coordinator"
        and each.t < answer.t
        and request.asked.t <= _known(history, each)
        for each in of.strikes
    )


def _others(scenario: Scenario, strike: Strike) -> bool:
    """Return whether a replica is left that can do what the struck part did."""
    engine = scenario.engine
    if engine is None:
        return False
    return strike.replica.startswith(("prefill", "coordinator")) or engine.data_parallel > 1


def _service(
    scenario: Scenario, history: History, of: Life, strike: Strike, goodput: Goodput
) -> list[Violation]:
    """Return a violation if goodput was not half in time, or not whole with the part back.

    Raises:
        Inconclusive: the load ended before it was known, or the part was not waited for.
    """
    around = strike.t
    due = _HALF_WITHIN + slack(history, around, around + _HALF_WITHIN)
    watched = strike.end - strike.t
    others = _others(scenario, strike)
    too_short = others and goodput.half is None and watched < due
    if others and not too_short and (goodput.half is None or goodput.half - strike.t > due):
        cause = (
            f"10 s after the death of {strike.part} goodput was still below half of"
            f" {goodput.before:.1f} requests/s"
        )
        return [Violation("starved", cause, some(history, of, strike.whole, around=around))]
    found = [] if too_short and goodput.back < 0 else _whole(scenario, history, of, strike, goodput)
    if too_short and not found:
        raise Inconclusive(f"the load ended {watched / 1e9:.1f} s after the death")
    return found


def _whole(
    scenario: Scenario, history: History, of: Life, strike: Strike, goodput: Goodput
) -> list[Violation]:
    """Return a violation if a part did not come back, or goodput was not whole once it had."""
    if strike.whole is None or not (scenario.engine and scenario.engine.restart):
        return []
    stays_away = not_back(history, of, strike)
    if stays_away:
        return stays_away
    whole = strike.whole.t
    enough = strike.end - whole >= _WINDOW
    missed = (_WHOLE * goodput.before - goodput.after) * (_WINDOW / SECOND)
    stood_still = slack(history, whole, whole + _WINDOW) / SECOND
    if enough and missed > of.together + goodput.before * stood_still:
        cause = (
            f"with {strike.part} back, goodput was {goodput.after:.1f} requests/s, where it had"
            f" been {goodput.before:.1f}"
        )
        return [Violation("starved", cause, some(history, of, strike.whole, around=strike.t))]
    return []


def not_back(history: History, of: Life, strike: Strike) -> list[Violation]:
    """Return a violation if a part was waited for in vain after its death.

    Raises:
        Inconclusive: it was not waited for as long as a slow start takes.
    """
    whole = strike.whole
    if whole is None or whole.data.get("yes"):
        return []
    took = whole.t - strike.t
    cause = f"{strike.part} had not come back {took / 1e9:.1f} s after its death"
    before = _came_back(of, strike)
    usual = max(before) if len(before) > 1 else of.start_took
    due = _BACK_WITHIN + 2 * usual + slack(history, strike.t, whole.t)
    if took < due:
        what = "a return of it" if len(before) > 1 else "the engine's start"
        raise Inconclusive(f"{cause}, on a machine where {what} had taken {usual / 1e9:.1f} s")
    if before:
        cause += f", after {counted(len(before), 'deaths')} from which it had come back"
    return [Violation("starved", cause, some(history, of, whole, around=strike.t))]


def _came_back(of: Life, strike: Strike) -> list[int]:
    """Return how long each return of the part after an earlier death took, ns."""
    earlier = [each for each in of.strikes if each.part == strike.part and each.t < strike.t]
    wholes = [(each.t, each.whole) for each in earlier if each.fault == "kill"]
    return [whole.t - t for t, whole in wholes if whole is not None and whole.data.get("yes")]
