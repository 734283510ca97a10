"""Notice of a death: when a party could first have known, and whether it learned in time."""

from __future__ import annotations

import msgspec

from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.systems.queue.record import got, sent

_WITHIN = 2_000_000_000
_ROUNDING = 100_000_000
"""A call that ended by its own timeout within so much of the 2 s may just have missed the word."""


class Call(msgspec.Struct):
    """A send or a receive, as far as time is concerned."""

    seq: int
    outcome: str
    began: Event
    ended: Event | None

    @property
    def tells(self) -> bool:
        """True if the call ended with an error that can report a death."""
        return self.outcome not in ("ok", "timeout", "injected", "never returned")


def receives(history: History, reader: str) -> list[Call]:
    """A reader's calls, in order."""
    return [Call(c.seq, c.outcome, c.began, c.ended) for c in got(history, reader)]


def sends(history: History) -> list[Call]:
    """The writer's calls, in order."""
    return [
        Call(m.seq, m.ended.text("outcome") if m.ended else "never returned", m.began, m.ended)
        for m in sent(history)
    ]


def ended_after(calls: list[Call], t: int) -> list[Call]:
    """The call that was pending at this time, if any, and those made after it."""
    return [call for call in calls if call.ended is None or call.ended.t > t]


def overdue(history: History, calls: list[Call], last: Call | None, death: Event) -> float | None:
    """Return the seconds after which a party noticed a death, or gave up, if they were too many.

    The clock starts with the death, or with the next call if none was pending, and again when a
    call succeeds. A call that ends before the 2 s are over owes nothing yet.

    Args:
        last: the call that reported the death, or went on; None to look at every call made.
    """
    since: int | None = None
    for call in ended_after(calls, death.t):
        if call.ended is None:
            break
        since = max(death.t, call.began.t) if since is None else since
        if call.outcome == "timeout" or call is last:
            due = since + _WITHIN
            if call is last and call.outcome != "timeout" and call.began.t > due:
                due = call.began.t + _WITHIN  # nobody was there to be told when it was due
            slack = history.allowance(since, call.ended.t)
            slack += _ROUNDING if call.outcome == "timeout" else 0
            if call.ended.t > due + slack:
                end = last.ended if last is not None and last.ended is not None else call.ended
                return (end.t - since) / 1e9
        if call is last:
            break
        if call.outcome == "ok":
            since = None
    return None
