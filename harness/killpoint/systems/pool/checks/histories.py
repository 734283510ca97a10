"""Histories of many calls at once, against the specification of a worker pool (H3).

Every call that is accepted reaches every worker once, in the order of the calls. A call or future
that ended well has the reply of each rank that was asked, made for this call; one that ran out of
time has none, and what the workers reply later is nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from killpoint.checkers.finding import Finding, Inconclusive, deaths, evidence, hangs
from killpoint.checkers.overlap import overlap, span
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.pool.checks.replies import stale
from killpoint.systems.pool.checks.stalls import stalls
from killpoint.systems.pool.model import TransferVotes
from killpoint.systems.pool.record import Act, Life, lives
from killpoint.verdict import Violation

_RAISES = ("raise_error", "unpicklable", "unreadable")
"""Methods of which a call ends with an error; all but the last are the worker's own."""
_FAILED = {
    "raise_error": ("failed",),
    "unpicklable": ("failed",),
    "unreadable": ("failed", "error"),
}
"""Outcomes that such a call may have: what cannot be decoded may be the executor's own error."""
_TAKES = 500_000_000
"""ns that a call to workers which go on takes at most, before what the machine took."""
_FINISHED = 3
"""Methods that a worker returns from meanwhile if it surely finished one call: the first may have
been finished before its calls were counted, and the last not yet as they were counted again."""
_LATE = 100_000_000
_EARLY = 1_000_000


def check_h3_pool_history(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """H3: what the executor saw of the pool could have been."""
    del scenario
    found = hangs(history)
    acts: list[Act] = []
    replies = 0
    for life in lives(history):
        acts += [act for act in life.acts if act.op != "pool-stop"]
        replies += sum(len(act.replies) for act in life.served() if act.ok)
        for rule in _RULES:
            found = found or list(rule(history, life))[:1]
    if not found and not acts:
        raise Inconclusive("nothing was asked of a pool")
    return Finding(found[:1], {"replies": replies, **overlap(_open(acts))})


def _open(acts: list[Act]) -> Iterator[tuple[int, int]]:
    """Yield the time for which each call was open: a future from its submission to its result."""
    begun = {act.n: act.began for act in acts if act.op == "submit"}
    for act in acts:
        if act.op != "submit":
            yield span(begun.get(act.n, act.began), act.ended)


def _each_its_own(history: History, life: Life) -> Iterator[Violation]:
    """A call's replies are those made for it, one of each rank that was asked, in rank order."""
    yield from stale(history, life)


def _content(history: History, life: Life) -> Iterator[Violation]:
    """A reply arrives as its worker made it."""
    expected = {a.n: a.began.text("digest") for a in life.acts if a.op in ("call", "submit")}
    for act in life.served():
        found = cast("list[list[object]]", act.ended.data.get("replies") or []) if act.ended else []
        due = expected.get(act.n)
        if act.ok and due and any(each[2] != due for each in found):
            cause = f"{act.words()} was given a reply that differs from what the worker made"
            yield Violation("wrong-data", cause, evidence(history, act.events()))


def _ends(history: History, life: Life) -> Iterator[Violation]:
    """A call fails by its worker's own error, its deadline, or a death, and of nothing else."""
    methods = {a.n: a.method for a in life.acts if a.op in ("call", "submit")}
    for act in life.served():
        raises = act.op != "health" and methods.get(act.n) in _RAISES
        if act.ended is None or act.outcome == "timeout" or deaths(history):
            continue
        if raises and act.ok:
            cause = f"{act.words()} ended well, and its workers had raised"
            yield Violation("no-error", cause, evidence(history, act.events()))
        elif not act.ok and not (raises and act.outcome in _FAILED[methods[act.n]]):
            said = act.error.partition("\n")[0]
            cause = f"{act.words()} ended with {act.outcome}, and no worker was gone: {said}"
            yield Violation("lost", cause, evidence(history, act.events()))


def _deadlines(history: History, life: Life) -> Iterator[Violation]:
    """A call ends in its own time; it runs out of that only if a worker stood still."""
    asked = {a.n: a for a in life.acts if a.op == "submit"}
    for act in life.served():
        if act.ended is None or act.timeout is None:
            continue
        took = int(act.seconds * 1e9)
        due = int(act.timeout * 1e9)
        allowed = _LATE + history.allowance(act.began.t, act.ended.t)
        gave_up = act.outcome == "timeout"
        if (gave_up and took < due - _EARLY) or took > due + allowed:
            when = "too early" if took < due else "too late"
            how = "gave up" if gave_up else f"ended with {act.outcome}"
            cause = f"{act.words()} with timeout {act.timeout:g} s {how} after {took / 1e9:.3f} s"
            yield Violation("late", f"{cause}: {when}", evidence(history, act.events()))
        if not gave_up:
            continue
        began = asked.get(act.n, act).began.t
        if _moved_on(history, life, began, act.ended.t):
            cause = f"{act.words()} ran out of time, and every worker had gone on for long enough"
            yield Violation("starved", cause, evidence(history, act.events()))


def _health(history: History, life: Life) -> Iterator[Violation]:
    """Health gives no worker up that finishes one call after the other meanwhile."""
    for act in life.acts:
        if act.op != "health" or act.outcome != "timeout" or act.ended is None:
            continue
        done = [
            sum(act.began.t < e.t < act.ended.t for e in history.of("served", role=f"worker-{n}"))
            for n in range(life.workers)
        ]
        if min(done) >= _FINISHED:
            cause = (
                "health said that a worker does not get on, and since it was asked for each worker"
                " had returned from one method after the other"
            )
            yield Violation("wrong-data", cause, evidence(history, act.events()))


def _transfers(history: History, life: Life) -> Iterator[Violation]:
    """A step's result names each transfer that every rank has named by then, once."""
    votes = {"sent": TransferVotes(life.workers), "received": TransferVotes(life.workers)}
    for act in life.acts:
        if act.op != "execute" or act.ended is None or act.outcome != "ok":
            continue
        for way, model in votes.items():
            named = cast("list[list[str]]", act.began.items(way))
            silent = not act.began.data["output"]
            heard = [
                [] if silent and rank == life.output_rank else each
                for rank, each in enumerate(named)
            ]
            due = model.step(heard, told=not silent)
            told = set(cast("list[str]", act.ended.items(way)))
            if missing := sorted(due - told):
                cause = f"{act.words()} did not tell that {', '.join(missing)} had been {way}"
                cause += " by every rank"
                yield Violation("lost", cause, evidence(history, act.events()))
            elif early := sorted(told - due):
                cause = f"{act.words()} told that {', '.join(early)} had been {way}, and not every"
                cause += " rank had named it since it was told before"
                yield Violation("wrong-data", cause, evidence(history, act.events()))


def _moved_on(history: History, life: Life, since: int, until: int) -> bool:
    """Return whether no worker was stopped for as long as a call takes before this time."""
    begun = max([since, *(e.t for e in history.of("fault") if e.t <= until)])
    for stall in stalls(history, life):
        if stall.since <= until and (stall.until is None or stall.until >= until):
            return False
    return until - begun > _TAKES + history.allowance(begun, until)


def _in_turn(history: History, life: Life) -> Iterator[Violation]:
    """Futures are done in the order in which they were submitted."""
    submitted = [act.n for act in life.acts if act.op == "submit" and act.ok]
    for act in life.acts:
        done = cast("list[int]", act.ended.data.get("done") or []) if act.ended else []
        if act.op == "result" and done != submitted[: len(done)]:
            cause = f"the futures of calls {done} were done, and {submitted} had been submitted"
            cause += " in this order"
            yield Violation("reordered", cause, evidence(history, act.events()))


_RULES: tuple[Callable[[History, Life], Iterator[Violation]], ...] = (
    _each_its_own,
    _content,
    _ends,
    _deadlines,
    _health,
    _in_turn,
    _transfers,
)
