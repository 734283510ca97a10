"""A worker's death: pending and later calls err within 2 s, and the pool ends (W3)."""

from __future__ import annotations

import msgspec

from killpoint.checkers.finding import Inconclusive, frame
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.systems.pool.checks.replies import stale
from killpoint.systems.pool.record import (
    DEADLY,
    Act,
    Life,
    Strike,
    ends,
    pool_lines,
    resumed,
    strikes,
)
from killpoint.verdict import Violation

_WITHIN = 2_000_000_000
_ROUNDING = 100_000_000
_OBEYS_WITHIN = 2_000_000_000
"""Nanoseconds after SIGTERM, and after what kept it, for which a worker may still be there."""
LEAVES_WITHIN = 5_000_000_000


class Death(msgspec.Struct):
    """A worker that the scenario ended."""

    rank: int
    strike: Strike
    event: Event


def deaths(history: History, life: Life) -> list[Death]:
    """The workers of a pool that were struck, and seen gone afterwards."""
    gone = ends(history, life)
    found: list[Death] = []
    for strike in strikes(history):
        rank = strike.rank
        if rank is None or rank not in gone or strike.fault not in DEADLY:
            continue
        begun = life.start.began.t <= strike.intent.t <= gone[rank].t
        if begun and (life.until is None or strike.intent.t < life.until):
            found.append(Death(rank, strike, gone[rank]))
    return found


def slack(history: History, since: int, until: int) -> int:
    """Return the nanoseconds that the machine's own lateness adds to a limit."""
    return history.allowance(since, until)


def disobeyed(history: History, life: Life) -> list[Violation]:
    """A worker that SIGTERM did not end, once nothing of the scenario's kept it any more."""
    gone = ends(history, life)
    for strike in strikes(history):
        rank = strike.rank
        if strike.fault != "sigterm" or rank is None:
            continue
        free = resumed(history, strike.role, strike.intent.t) or strike.intent.t
        until = life.stop_began() or history.events[-1].t
        end = gone[rank].t if rank in gone else until
        took = min(end, until) - free
        if took > _OBEYS_WITHIN + slack(history, free, end):
            cause = f"{strike.role} was sent SIGTERM, and was still there {took / 1e9:.1f} s later;"
            cause += f" the limit is {_OBEYS_WITHIN / 1e9:g} s"
            return [Violation("hang", cause, history.lines(list(history.of("intent", "gone"))))]
        if rank not in gone:
            raise Inconclusive(f"{strike.role} was given too little time to obey SIGTERM")
    return []


def check_death_is_told(history: History, life: Life, death: Death) -> list[Violation]:
    """W3's rule for one death: what every call owes, the callback, and the pool's end."""
    if life.start.pending_at(death.strike.intent.t):
        if life.start.ok:
            return _calls_told(history, life, death) or _pool_ends(history, life, death)
        return _late(history, life.start, death)
    return (
        stale(history, life)
        or _calls_told(history, life, death)
        or _called_back(history, life, death)
        or _pool_ends(history, life, death)
    )


def _calls_told(history: History, life: Life, death: Death) -> list[Violation]:
    made = [
        act
        for act in life.served()
        if act.ended is not None
        and act.ended.t > death.strike.intent.t
        and not _had_come(history, life, act, death)
    ]
    if not made and not life.start.pending_at(death.strike.intent.t):
        raise Inconclusive(f"no call was pending or made after the death of {death.strike.role}")
    for act in made:
        found = _late(history, act, death)
        if found:
            return found
    return []


def _had_come(history: History, life: Life, act: Act, death: Death) -> bool:
    """Return whether a value that was asked for after the death may have come before it."""
    if act.op != "result" or not act.ok or act.ended is None or act.began.t < death.event.t:
        return False
    due = act.began.t + _WITHIN + slack(history, act.began.t, act.ended.t)
    asked = next((each for each in life.acts if each.op == "submit" and each.n == act.n), act)
    shown = [
        each.ended
        for each in life.acts
        if each.op == "result" and each.ended is not None and each.ended.t > death.event.t
    ]
    undone = any("done" in e.data and act.n not in e.items("done") for e in shown)
    return act.ended.t <= due and asked.began.t < death.event.t and not undone


def _late(history: History, act: Act, death: Death) -> list[Violation]:
    """Return a violation if an act that the death concerns went on too long, or succeeded."""
    if act.ended is None or act.outcome == "injected":
        return []
    since = max(death.event.t, act.began.t)
    due = since + _WITHIN + slack(history, since, act.ended.t)
    lines = pool_lines(history, act)
    dead = f"{death.strike.role} dead"
    if act.ok:
        known = death.event.t + _WITHIN + slack(history, death.event.t, act.began.t)
        if act.began.t <= known and act.ended.t <= due:
            return []
        after = (act.began.t - death.event.t) / 1e9
        cause = f"{act.words()}, made {after:.2f} s after the death, went well with {dead}"
        return [Violation("no-error", cause, lines)]
    took = (act.ended.t - since) / 1e9
    if act.outcome == "timeout":
        if act.ended.t <= due + _ROUNDING:
            return []
        cause = f"{act.words()} ran into its own timeout with {dead}: it was never told"
        return [Violation("no-error", cause, lines)]
    if act.ended.t > due:
        cause = (
            f"{act.words()} was told of the death of {death.strike.role} only after {took:.2f} s;"
            f" the limit is {_WITHIN / 1e9:g} s"
        )
        return [Violation("late", cause, lines)]
    return []


def _called_back(history: History, life: Life, death: Death) -> list[Violation]:
    """The failure callback: once, within 2 s, unless a shutdown was quicker."""
    calls = life.callbacks
    lines = history.lines([*history.of("fault"), death.event, *calls])
    if len(calls) > 1:
        cause = f"the failure callback was called {len(calls)} times for one death"
        return [Violation("duplicate", cause, lines)]
    due = death.event.t + _WITHIN
    stopped = life.stop_began()
    if calls:
        took = calls[0].t - death.event.t
        if took > _WITHIN + slack(history, death.event.t, calls[0].t):
            cause = f"the failure callback was called only {took / 1e9:.2f} s after the death;"
            cause += f" the limit is {_WITHIN / 1e9:g} s"
            return [Violation("late", cause, lines)]
        return []
    watched = stopped if stopped is not None else history.events[-1].t
    if watched > due + slack(history, death.event.t, watched):
        cause = f"the failure callback was never called after the death of {death.strike.role}"
        return [Violation("no-error", cause, lines)]
    return []


def _pool_ends(history: History, life: Life, death: Death) -> list[Violation]:
    """Check that the pool's state shows the death, and that its shutdown leaves no process."""
    known = death.event.t + _WITHIN
    for seen in life.states:
        word = seen.text("state")
        late = seen.t > known + slack(history, death.event.t, seen.t)
        if late and word in ("starting", "ready", "running"):
            after = (seen.t - death.event.t) / 1e9
            cause = (
                f"the pool was still {word} {after:.2f} s after the death of {death.strike.role};"
                f" the limit is {_WITHIN / 1e9:g} s"
            )
            return [Violation("bad-transition", cause, history.lines([death.event, seen]))]
    return left_after_stop(history, life)


def left_after_stop(history: History, life: Life) -> list[Violation]:
    """Workers that a shutdown has not ended 5 s after it returned."""
    stop = next((s for s in reversed(life.stops()) if s.ended is not None), None)
    if stop is None or stop.ended is None:
        return []
    return left(history, life, stop.ended, "the shutdown returned")


def left(history: History, life: Life, since: Event, what: str) -> list[Violation]:
    """A violation for workers that are not gone 5 s after an event."""
    gone = ends(history, life)
    due = since.t + LEAVES_WITHIN + slack(history, since.t, since.t + LEAVES_WITHIN)
    late = sorted(r for r in life.pids.values() if r not in gone or gone[r].t > due)
    if not late:
        return []
    who = " and ".join(f"worker-{rank}" for rank in late)
    cause = f"{who} {'was' if len(late) == 1 else 'were'} still there 5 s after {what}"
    cause += "".join(_stayed(history, f"worker-{r}", alone=len(late) == 1) for r in late)
    shown = history.lines([*history.of("fault"), since, *gone.values()])
    return [Violation("leak", cause, shown, of="processes")]


def _stayed(history: History, who: str, *, alone: bool) -> str:
    """Return where a worker that does not leave was seen, and whether SIGTERM ended it at last."""
    seen = [e for e in history.of("hang") if e.text("target") == who and e.text("op") == "leaving"]
    where = frame(seen[-1]) if seen else ""
    asked = [e for e in history.of("asked-to-leave") if e.text("target") == who]
    it = "it" if alone else who
    words = f"; {it} was seen in {where}" if where else ""
    if any(e.text("where") == "native" and e.text("target") == who for e in history.of("fault")):
        words += f"; {it} was in native code that keeps the interpreter"
    if asked:
        obeyed = asked[-1].data.get("obeyed") is True
        words += f"; SIGTERM, sent then, {'ended' if obeyed else 'did not end'} {it} within 2 s"
    return words
