"""Replies: each belongs to its call, whatever became of earlier ones (W2), in order (W8)."""

from __future__ import annotations

from typing import cast

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pool.model import PoolModel
from killpoint.systems.pool.record import Act, Life, lives, pool_lines
from killpoint.verdict import Kind, Violation

_WITHIN = 2_000_000_000
_WRONG: dict[str, Kind] = {
    "stale": "wrong-data",
    "unasked": "duplicate",
    "incomplete": "lost",
    "disordered": "reordered",
}


def stale(history: History, life: Life) -> list[Violation]:
    """A violation for each call that got another one's reply, too few, or in another order."""
    model = PoolModel(life.workers)
    found: list[Violation] = []
    for act in life.acts:
        if act.op in ("call", "submit"):
            model.ask(act.n)
        if act.op in ("call", "result") and act.ok:
            rank = asked_rank(life, act)
            wrong = model.answer(act.n, act.replies, rank)
            if wrong:
                cause = _said(act, wrong, life, rank)
                found.append(Violation(_WRONG[wrong], cause, _around(history, life, act)))
    return found


def asked_rank(life: Life, act: Act) -> int | None:
    """Return the rank whose reply alone was asked for; None if there is none."""
    asked = next((a for a in life.acts if a.op in ("call", "submit") and a.n == act.n), act)
    found = asked.began.data.get("rank")
    return found if isinstance(found, int) else None


def _said(act: Act, wrong: str, life: Life, rank: int | None) -> str:
    got = ", ".join(f"worker-{who}'s to call {of}" for who, of in act.replies) or "none"
    if wrong == "stale":
        late = next(of for _, of in act.replies if of != act.n)
        before = next((a for a in life.acts if a.n == late and a.ended is not None), None)
        how = f", which had ended with: {before.outcome}" if before is not None else ""
        return f"{act.words()} was given the reply to call {late}{how}; its replies were {got}"
    owed = f"worker-{rank}'s alone" if rank is not None else f"one of each of {life.workers}"
    return f"{act.words()} was given {got}; it was owed {owed}, in rank order"


def _around(history: History, life: Life, act: Act) -> list[str]:
    """The call's own lines, and those of what it was mistaken for."""
    others = {of for _, of in act.replies}
    events: list[Event] = []
    for each in life.acts:
        if each.n in others or each.n == act.n:
            events += [each.began, *([each.ended] if each.ended else [])]
    return evidence(history, sorted(events, key=lambda event: event.t))


def check_w2_replies(_scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """W2: after a call that did not end well, later ones get their own replies, and get them."""
    found = hangs(history, "call", "results", "health")
    later = 0
    for life in lives(history):
        found = found or stale(history, life)
        bad = [act for act in life.acts if _went_wrong(life, act)]
        if not bad:
            continue
        for act in life.acts:
            if act.op not in ("call", "result") or act.began.t <= bad[0].began.t or act in bad:
                continue
            later += act.ok
    if not found and not later:
        raise Inconclusive("no call succeeded after one that had not: no late reply could show")
    return Finding(found[:1], {"late replies possible": later})


def _went_wrong(life: Life, act: Act) -> bool:
    """Return whether a call ended without its reply, or its reply was never asked for."""
    if act.op == "submit":
        return not any(each.op == "result" and each.n == act.n for each in life.acts)
    return act.op in ("call", "result") and not act.ok


def check_w8_order(_scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """W8: futures resolve in the order of their calls, and a shutdown leaves none unresolved."""
    found = hangs(history, "submit", "results", "pool-stop")
    resolved = 0
    for life in lives(history):
        found = found or stale(history, life)
        submitted = [act.n for act in life.acts if act.op == "submit" and act.ok]
        for act in life.acts:
            if act.op != "result" or act.ended is None:
                continue
            done = cast("list[int]", act.ended.data.get("done") or [])
            if not found and done != submitted[: len(done)]:
                cause = f"the futures of calls {done} were done while those of {submitted} had been"
                cause += " submitted in this order: a later one was done before an earlier one"
                found = [Violation("reordered", cause, evidence(history, [act.began, act.ended]))]
            resolved += 1
            found = found or _unresolved(history, life, act)
    if not found and not resolved:
        raise Inconclusive("no future was asked for its result")
    return Finding(found[:1], {"futures": resolved})


def _unresolved(history: History, life: Life, act: Act) -> list[Violation]:
    """A future that the shutdown left without an error, or late."""
    stop = next((s for s in life.stops() if s.ended is not None), None)
    if stop is None or stop.ended is None or act.ended is None or act.ended.t < stop.ended.t:
        return []
    if act.outcome == "timeout":
        cause = f"{act.words()} was not resolved by the shutdown: it ran into its own timeout"
        return [Violation("no-error", cause, pool_lines(history, stop, act))]
    since = max(stop.ended.t, act.began.t)
    if act.ended.t > since + _WITHIN + history.allowance(since, act.ended.t):
        took = (act.ended.t - since) / 1e9
        cause = f"{act.words()} was resolved only {took:.2f} s after the shutdown; the limit is"
        cause += f" {_WITHIN / 1e9:g} s"
        return [Violation("late", cause, pool_lines(history, stop, act))]
    return []
