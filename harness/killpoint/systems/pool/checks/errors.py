"""Errors of workers: the caller gets them, and the pool goes on (W6); or the start fails (W7)."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Inconclusive
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.pool.checks.deaths import deaths, left, slack
from killpoint.systems.pool.checks.replies import asked_rank, stale
from killpoint.systems.pool.checks.stalls import unaffected
from killpoint.systems.pool.record import Act, Life, pool_lines, strikes
from killpoint.verdict import Violation

_CLASS_FILES = ("worker_class", "pool_worker")
"""The file of the workers' class, by the name that it has, and that older records have."""
_WITHIN = 2_000_000_000
FAILING = ("raise_error", "unpicklable", "leave")
"""Methods that owe the caller an error."""
_TOLD = ("failed", "error", "refused")
"""Outcomes that are a worker's own error; any other says that no worker answered, or the pool
died."""


def raised(history: History, life: Life, *, by_worker: bool) -> list[Event]:
    """Return the exceptions injected during a pool's life, in its workers or in its executor."""
    return [
        event
        for event in history.of("raised")
        if event.role.startswith("worker-") == by_worker
        and event.t >= life.start.began.t
        and (life.until is None or event.t < life.until)
    ]


def call_fails(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    """W6: the call that struck the error has it, within 2 s; every other one has its value."""
    struck = _struck(history, life)
    if not struck:
        raise Inconclusive("no call was under way when a worker raised")
    for act, since in struck:
        found = [] if _silent(history, life, act) else _told(history, act, since)
        if found:
            return found
    acts = [each for each, _ in struck]
    rest = [act for act in life.acts if act not in acts and not _taken_by(act, acts)]
    others = msgspec.structs.replace(life, acts=rest)
    last = max(act.ended.t for act in acts if act.ended is not None)
    if not any(act.ok and act.began.t > last for act in others.served()):
        stop = life.stop_began()
        made = [
            a for a in others.served() if a.began.t > last and (stop is None or a.began.t < stop)
        ]
        if not made:
            raise Inconclusive("no call was made after the one that failed")
    return stale(history, life) or unaffected(scenario, history, others)


def _call_of(history: History, strike: Event) -> int:
    """The call that a worker was at work for when an exception struck it."""
    phases = [e for e in history.of("phase", role=strike.role) if e.t <= strike.t]
    return phases[-1].number("call") if phases else -1


def _silent(history: History, life: Life, act: Act) -> bool:
    """Return whether only workers that do not reply failed, and the call had its value."""
    rank = asked_rank(life, act)
    mine = [e for e in raised(history, life, by_worker=True) if _call_of(history, e) == act.n]
    hit = [event.role for event in mine]
    return act.ok and rank is not None and bool(hit) and f"worker-{rank}" not in hit


def _taken_by(act: Act, struck: list[Act]) -> bool:
    return act.op == "submit" and any(each.n == act.n for each in struck)


def _struck(history: History, life: Life) -> list[tuple[Act, int]]:
    """The calls that owe an error, and since when."""
    found: list[tuple[Act, int]] = []
    methods = {act.n: act.method for act in life.acts if act.op in ("call", "submit")}
    strikes_at = [(e.t, _call_of(history, e)) for e in raised(history, life, by_worker=True)]
    for act in life.acts:
        if act.op not in ("call", "result") or act.ended is None:
            continue
        hit = [t for t, n in strikes_at if act.n == n and (act.op == "result" or t >= act.began.t)]
        if hit:
            found.append((act, hit[0]))
        elif methods.get(act.n) in FAILING:
            found.append((act, act.began.t))
    return found


def _told(history: History, act: Act, since: int) -> list[Violation]:
    assert act.ended is not None
    lines = pool_lines(history, act)
    took = (act.ended.t - since) / 1e9
    if act.outcome in _TOLD:
        if act.ended.t <= since + _WITHIN + slack(history, since, act.ended.t):
            return []
        cause = f"{act.words()} was told of the worker's error only after {took:.2f} s; the"
        cause += f" limit is {_WITHIN / 1e9:g} s"
        return [Violation("late", cause, lines)]
    if act.ok:
        cause = f"{act.words()} went well although a worker's part in it had failed"
        return [Violation("no-error", cause, lines)]
    if act.outcome == "timeout":
        cause = f"{act.words()} ran into its own timeout: the worker's error was never told"
        return [Violation("no-error", cause, lines)]
    cause = f"{act.words()} ended with {act.outcome}, which is not the worker's own error"
    return [Violation("lost", f"{cause}: {act.error}" if act.error else cause, lines)]


def call_or_pool_fails(scenario: Scenario, history: History, life: Life) -> list[Violation]:
    """Check that the struck call fails; afterwards every call has its value, or each is refused."""
    struck = [
        act
        for event in history.of("raised")
        for act in life.acts
        if act.op in ("call", "submit", "result", "health") and act.pending_at(event.t)
    ]
    if not struck:
        raise Inconclusive("no call was under way when the exception struck")
    first = struck[0]
    if first.ended is None:
        return []
    if first.outcome == "timeout":
        cause = f"{first.words()} ran into its own timeout: the error was never told"
        return [Violation("no-error", cause, pool_lines(history, first))]
    stop = life.stop_began()
    later = [
        act
        for act in life.served()
        if act.began.t > first.ended.t and (stop is None or act.began.t < stop)
    ]
    if not later:
        raise Inconclusive("no call was made after the one that was struck")
    late = next((act for act in later if act.outcome == "timeout"), None)
    if late is not None:
        cause = f"after the exception, {late.words()} ran into its own timeout, and nobody said why"
        return [Violation("no-error", cause, pool_lines(history, first, late))]
    if later[-1].ok:
        bad = next((act for act in later if not act.ok), None)
        if bad is not None:
            cause = f"after the exception, {bad.words()} ended with {bad.outcome}, later ones well"
            return [Violation("lost", cause, pool_lines(history, first, bad))]
    if len(life.callbacks) > 1:
        cause = f"the failure callback was called {len(life.callbacks)} times"
        return [Violation("duplicate", cause, history.lines(life.callbacks))]
    return stale(history, life)


def start_fails(_scenario: Scenario, history: History, life: Life) -> list[Violation]:
    """W7: the start raises within 2 s, with the worker's own words, or with its death."""
    act, dead = life.start, deaths(history, life)
    told = raised(history, life, by_worker=True)
    # The executor may hear of a death before the runner does.
    struck = dead[0].strike.intent.t if dead else told[0].t if told else None
    if struck is None or not act.pending_at(struck):
        raise Inconclusive("no worker failed while the pool was starting")
    since = dead[0].event.t if dead else struck
    if act.ended is None:
        return []
    lines = pool_lines(history, act)
    if act.ok:
        return [Violation("no-error", "the start went well although a worker had failed", lines)]
    took = (act.ended.t - since) / 1e9
    if act.outcome == "timeout":
        cause = "the start ran into its own timeout: the worker's failure was never told"
        return [Violation("no-error", cause, lines)]
    if act.ended.t > since + _WITHIN + slack(history, since, act.ended.t):
        cause = f"the start failed only {took:.2f} s after the worker; the limit is"
        return [Violation("late", f"{cause} {_WITHIN / 1e9:g} s", lines)]
    # Of what its own class raised, a traceback shows the class's own file.
    own = any(event.text("where") in ("constructing", "loading") for event in told)
    traced = "injected at" in act.error and (
        not own or any(name in act.error for name in _CLASS_FILES)
    )
    if not dead and not traced:
        cause = "the start failed without the worker's own traceback; all that it said was:"
        return [Violation("no-error", f"{cause} {act.error}", lines)]
    return left(history, life, act.ended, "the start had failed")


def start_undone(_scenario: Scenario, history: History, life: Life) -> list[Violation]:
    """Check that a start which an exception cut short leaves no process."""
    if not raised(history, life, by_worker=False) and not any(
        strike.role == "executor" for strike in strikes(history)
    ):
        raise Inconclusive("nothing struck the start")
    if life.start.ended is None or life.start.ok:
        raise Inconclusive("the exception did not end the start")
    return left(history, life, life.start.ended, "the start had been cut short")
