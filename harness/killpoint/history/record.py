"""The merged record of a play, and the questions that checkers ask of it."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from killpoint.history.event import Event

_DECODER = msgspec.json.Decoder(Event)
_BEGINS = b'{"t":'


class History:
    """All events of a play in the order of their times."""

    def __init__(self, events: list[Event], damaged: Sequence[str] = ()) -> None:
        """Take the events of any number of roles, and what was no event in their logs."""
        self.damaged = damaged
        """``file:line`` of each whole line that no death can have left so."""
        self.events = sorted(events, key=lambda event: event.t)
        self._of_kind: dict[str, list[tuple[int, Event]]] = {}
        for place, event in enumerate(self.events):
            self._of_kind.setdefault(event.kind, []).append((place, event))

    @classmethod
    def read(cls, folder: Path) -> History:
        """Merge the logs in a folder; what a death tore is dropped.

        A torn line is the last one, or has the first event of a second start glued to it.
        """
        events: list[Event] = []
        damaged: list[str] = []
        for path in sorted(folder.glob("*.jsonl")):
            for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
                event = _event(line)
                if event is None:
                    damaged.append(f"{path}:{number}")
                else:
                    events.append(event)
        return cls(events, damaged)

    def of(self, *kinds: str, role: str | None = None) -> Iterator[Event]:
        """Events of these kinds, of one role if given, in order."""
        lists = [self._of_kind[kind] for kind in {*kinds} if kind in self._of_kind]
        for _, event in lists[0] if len(lists) == 1 else heapq.merge(*lists):
            if role is None or event.role == role:
                yield event

    def first(self, *kinds: str, role: str | None = None) -> Event | None:
        """The first such event."""
        return next(self.of(*kinds, role=role), None)

    def start(self) -> int:
        """Time of the first event, ns."""
        return self.events[0].t if self.events else 0

    def late_tick(self, since: int, until: int) -> int:
        """Worst lateness, ns, of the control waits that touched this interval.

        It is the time by which this machine delayed a plain wait then.
        """
        return max(
            (
                event.number("ns", 0)
                for event in self.of("late-tick")
                if event.t >= since and event.t - event.number("ns", 0) <= until
            ),
            default=0,
        )

    def denied(self, since: int, until: int) -> int:
        """Most nanoseconds of this interval for which one role was ready to run, and did not.

        Each ``denied`` event adds up what ended since the look before it.
        """
        by_role: dict[str, int] = {}
        for event in self.of("denied"):
            ns = event.number("ns", 0)
            began = event.t - ns - event.number("over", 0)
            overlap = min(event.t, until) - max(began, since)
            if overlap > 0:
                role = event.text("target")
                by_role[role] = by_role.get(role, 0) + min(ns, overlap)
        return min(max(by_role.values(), default=0), max(until - since, 0))

    def lateness(self, since: int, until: int) -> int:
        """Nanoseconds of this interval that the machine took: the worse of the two controls."""
        return max(self.late_tick(since, until), self.denied(since, until))

    def allowance(self, since: int, until: int) -> int:
        """Nanoseconds that a verdict about time gives beyond its bound in this interval.

        Twice what the machine took, since what is judged takes two parties.
        """
        return 2 * self.lateness(since, until)

    def lines(self, events: list[Event]) -> list[str]:
        """Some events as lines for people."""
        return [event.line(self.start()) for event in events]


def _event(line: bytes) -> Event | None:
    """The event that ends a line, behind what a death may have left of another."""
    for begin in (0, line.rfind(_BEGINS)):
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            return _DECODER.decode(line[max(begin, 0) :])
    return None
