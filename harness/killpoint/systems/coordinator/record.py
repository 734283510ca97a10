"""Record of a coordinator: what its peers said and heard, and which of them were gone when."""

from __future__ import annotations

from typing import cast

import msgspec

from killpoint.checkers.finding import Inconclusive
from killpoint.history.event import Event
from killpoint.history.record import History

Counts = tuple[int, int]
_ENDS = ("kill", "exit", "sigterm", "sigint")
_GOES = (*_ENDS, "stop", "cut")
_RETURNS = ("continue", "heal")
_LEAVES = ("connect", "disconnect", "exit")
"""Operations that end a role's link; a role that connects anew drops the link that it has."""


class Publication(msgspec.Struct):
    """Publication that one front end received."""

    event: Event
    counts: list[Counts | None] | None

    def of(self, rank: int) -> Counts | None:
        """Return a rank's counts; None if it is gone, or the publication does not hold it."""
        counts = self.counts or []
        return counts[rank] if rank < len(counts) else None

    def lacks(self, rank: int) -> bool:
        """Return whether the publication says that a rank is gone."""
        return self.counts is not None and (rank >= len(self.counts) or self.counts[rank] is None)


class Change(msgspec.Struct):
    """New counts that an engine sent."""

    event: Event
    since: int
    """Time from which on the counts can have been heard, ns."""
    rank: int
    counts: Counts

    def words(self) -> str:
        """Return a description of it, for people."""
        how = f", beside {self.event.text('lie')}," if self.event.kind == "lied" else ""
        return (
            f"the counts {list(self.counts)} of rank {self.rank}{how} that {self.event.role} told"
        )


class Span(msgspec.Struct):
    """Interval in which a role, or the coordinator, is not there for the others."""

    role: str
    word: str
    """Name of the fault that began the interval, or ``disconnect``."""
    begin: Event
    since: int
    """Time at which the fault was begun, ns: it is logged once it is done, and may have been seen
    before."""
    end: Event | None = None

    @property
    def for_good(self) -> bool:
        """True if the fault ended the role's process."""
        return self.word in _ENDS

    def words(self) -> str:
        """Return a description of it, for people."""
        return f"{self.role}'s {self.word}"


def ms(seconds: float) -> int:
    """Seconds as ns."""
    return int(seconds * 1e9)


def times(history: History) -> tuple[float, float]:
    """Return the interval and the idle interval that the target promises, seconds.

    Raises:
        Inconclusive: no coordinator was started.
    """
    told = history.first("times")
    if told is None or history.first("coordinator-started") is None:
        raise Inconclusive("no coordinator was started")
    return _seconds(told, "interval"), _seconds(told, "idle")


def _seconds(event: Event, key: str) -> float:
    found = event.data.get(key)
    return float(found) if isinstance(found, (int, float)) else 0.0


def publications(history: History, front_end: str) -> list[Publication]:
    """Everything that one front end heard, in order."""
    found: list[Publication] = []
    for event in history.of("heard", role=front_end):
        if event.text("what") == "state":
            raw = cast("list[list[int] | None] | None", event.data.get("counts"))
            counts = None if raw is None else [pair(each) for each in raw]
            found.append(Publication(event, counts))
    return found


def pair(raw: object) -> Counts | None:
    """Counts as they stand in an event."""
    if not isinstance(raw, (list, tuple)):
        return None
    first, second = cast("list[int]", raw)
    return first, second


def changes(history: History) -> list[Change]:
    """Return the counts that engines sent, those that went beside a lie included, in order."""
    found: list[Change] = []
    for event in history.of("said", "lied"):
        counts = pair(event.data.get("counts"))
        if counts is not None:
            since = event.number("since", event.t)
            found.append(Change(event, since, event.number("rank"), counts))
    return found


def spans(history: History) -> list[Span]:
    """Return the intervals in which roles were dead, stopped, cut off or unconnected, in order."""
    found: list[Span] = []
    inside: dict[str, Span] = {}
    for event in history.of("fault", "linked", "unlinked"):
        role = event.text("target") if event.kind == "fault" else event.role
        word = event.text("fault") if event.kind == "fault" else "disconnect"
        if event.data.get("teardown") or _leaves_at_the_end(history, event):
            continue
        back = event.kind == "linked" or word in _RETURNS
        if back and role in inside:
            inside.pop(role).end = event
        elif not back and word in (*_GOES, "disconnect") and role not in inside:
            inside[role] = Span(role, word, event, _set_about(history, event, role))
            found.append(inside[role])
    return found


def _set_about(history: History, done: Event, role: str) -> int:
    if done.kind == "fault":
        before = [e for e in history.of("intent") if e.text("target") == role]
    else:
        before = [e for e in history.of("begin", role=role) if e.text("op") in _LEAVES]
    return max((e.t for e in before if e.t <= done.t), default=done.t)


def leaving(history: History, role: str, t: int) -> bool:
    """Return whether a role was asked to leave and has not linked anew: its link may be closed."""
    told = [e for e in history.of("begin", role=role) if e.t <= t and e.text("op") in _LEAVES]
    return bool(told) and not any(told[-1].t <= e.t <= t for e in history.of("linked", role=role))


def _leaves_at_the_end(history: History, event: Event) -> bool:
    """Return whether a peer leaves because the play is over: its only step left is to exit."""
    if event.kind != "unlinked":
        return False
    told = [e for e in history.of("begin", role=event.role) if e.t > event.t]
    return [e.text("op") for e in told] == ["exit"]


def rank_of(history: History, role: str, t: int) -> int | None:
    """The rank that an engine came as last before this; None if it had not come."""
    came = [e for e in history.of("linked", role=role) if e.t <= t]
    return came[-1].number("rank") if came and "rank" in came[-1].data else None


def there(history: History, role: str, since: int, until: int, gone: list[Span]) -> bool:
    """Return whether a role was connected, and present, all the time."""
    links = [e for e in history.of("linked", "unlinked", role=role) if e.t <= until]
    connected = bool(links) and links[-1].kind == "linked" and links[-1].t <= since
    away = any(
        span.role == role and span.begin.t <= until and (span.end is None or span.end.t > since)
        for span in gone
    )
    return connected and not away


NEVER = 1 << 62
"""Time that does not come, ns."""


class Stay(msgspec.Struct):
    """Time for which a role was linked, and went on."""

    role: str
    rank: int | None
    """None of a front end."""
    asked: int
    """Time from which on it may have been there, ns."""
    since: int = NEVER
    """Time from which on it was there for sure: it had heard the coordinator."""
    until: int = NEVER
    """Time from which on it may have been away: it was told to leave, or struck."""
    ended: int = NEVER
    """Time from which on it was away for sure."""

    def covers(self, since: int, until: int) -> bool:
        """Return whether it was there for sure for all of a time."""
        return self.since <= since and until < self.until

    def meets(self, since: int, until: int) -> bool:
        """Return whether it may have been there at some time between these."""
        return self.asked <= until and since < self.ended


def stays(history: History) -> list[Stay]:
    """Return the stays of engines and front ends, in order; one that is stopped begins another."""
    found: list[Stay] = []
    last: dict[str, Stay] = {}
    asked: dict[str, int] = {}
    for event in history.events:
        acted = event.kind in ("intent", "fault") and not event.data.get("teardown")
        role = event.text("target") if acted else event.role
        stay, word = last.get(role), event.text("fault")
        if event.kind == "begin" and event.text("op") in _LEAVES:
            asked[role] = event.t
            if stay is not None:
                stay.until = min(stay.until, event.t)
        elif event.kind == "linked":
            if stay is not None:
                stay.ended = min(stay.ended, event.t)
            rank = event.number("rank") if "rank" in event.data else None
            last[role] = Stay(role, rank, asked.get(role, event.t))
            found.append(last[role])
        elif stay is None:
            continue
        elif event.kind == "unlinked" or (event.kind == "fault" and word in _GOES):
            stay.until, stay.ended = min(stay.until, event.t), min(stay.ended, event.t)
        elif event.kind == "intent" and word in _GOES:
            stay.until = min(stay.until, event.t)
        elif event.kind == "intent" and word in _RETURNS and stay.ended < NEVER:
            last[role] = Stay(role, stay.rank, event.t)
            found.append(last[role])
        elif event.kind == "heard" and stay.until == NEVER:
            stay.since = min(stay.since, event.t)
    return found
