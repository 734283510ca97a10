"""What a coordinator's peers said and heard, and what became of whom, read off a history."""

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
"""Whoever connects anew lets go of the link that it has."""


class Publication(msgspec.Struct):
    """What one front end heard at one time."""

    event: Event
    counts: list[Counts | None] | None

    def of(self, rank: int) -> Counts | None:
        """What it says of a rank; None of one that is gone, or of which it says nothing."""
        counts = self.counts or []
        return counts[rank] if rank < len(counts) else None

    def lacks(self, rank: int) -> bool:
        """Whether it says that a rank is gone."""
        return self.counts is not None and (rank >= len(self.counts) or self.counts[rank] is None)


class Change(msgspec.Struct):
    """New counts that an engine told."""

    event: Event
    since: int
    """From when on they can have been heard, ns."""
    rank: int
    counts: Counts

    def words(self) -> str:
        """For people."""
        how = f", beside {self.event.text('lie')}," if self.event.kind == "lied" else ""
        return (
            f"the counts {list(self.counts)} of rank {self.rank}{how} that {self.event.role} told"
        )


class Span(msgspec.Struct):
    """A time in which a role is not there for the others, or the coordinator."""

    role: str
    word: str
    """Of the fault that began it, or ``disconnect``."""
    begin: Event
    since: int
    """When it was set about, ns: what is done is logged after it is done, and may have been seen
    by then."""
    end: Event | None = None

    @property
    def for_good(self) -> bool:
        """Whether its process has ended."""
        return self.word in _ENDS

    def words(self) -> str:
        """For people."""
        return f"{self.role}'s {self.word}"


def ms(seconds: float) -> int:
    """Seconds as ns."""
    return int(seconds * 1e9)


def times(history: History) -> tuple[float, float]:
    """Interval and idle interval that the target promises, seconds.

    Raises:
        Inconclusive: nobody started a coordinator.
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
    """Counts that engines told, those that went beside a lie included, in order."""
    found: list[Change] = []
    for event in history.of("said", "lied"):
        counts = pair(event.data.get("counts"))
        if counts is not None:
            since = event.number("since", event.t)
            found.append(Change(event, since, event.number("rank"), counts))
    return found


def spans(history: History) -> list[Span]:
    """When who was gone: dead, stopped, cut off, or not connected any more, in order."""
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
    """Whether a role had been told to leave, and had not come anew: its link may be closed."""
    told = [e for e in history.of("begin", role=role) if e.t <= t and e.text("op") in _LEAVES]
    return bool(told) and not any(told[-1].t <= e.t <= t for e in history.of("linked", role=role))


def _leaves_at_the_end(history: History, event: Event) -> bool:
    """Whether a peer only goes because the play is over: the next thing it is told is to exit."""
    if event.kind != "unlinked":
        return False
    told = [e for e in history.of("begin", role=event.role) if e.t > event.t]
    return [e.text("op") for e in told] == ["exit"]


def rank_of(history: History, role: str, t: int) -> int | None:
    """The rank that an engine came as last before this; None if it had not come."""
    came = [e for e in history.of("linked", role=role) if e.t <= t]
    return came[-1].number("rank") if came and "rank" in came[-1].data else None


def there(history: History, role: str, since: int, until: int, gone: list[Span]) -> bool:
    """Whether a role was connected, and there all the time."""
    links = [e for e in history.of("linked", "unlinked", role=role) if e.t <= until]
    connected = bool(links) and links[-1].kind == "linked" and links[-1].t <= since
    away = any(
        span.role == role and span.begin.t <= until and (span.end is None or span.end.t > since)
        for span in gone
    )
    return connected and not away
