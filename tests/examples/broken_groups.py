"""The same group, broken on purpose, one fault a class: the harness must catch each of them."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from pipe_group import GroupTarget, Hub, Member, RankGone, ThreadsTarget

if TYPE_CHECKING:
    from collections import deque

CAUGHT = {
    "SwapsTwo": ("G1/all-to-all", "reordered"),
    "LosesOne": ("G1/all-to-all", "lost"),
    "RepeatsABroadcast": ("G1/broadcasts", "duplicate"),
    "MixesSenders": ("G1/lanes-apart", "lost reordered wrong-data"),
    "GathersAsTheyCome": ("G1/gathers", "reordered"),
    "KeepsWhatIsRead": ("G2/large-objects", "growth"),
    "CountsUp": ("G2/many-small-objects", "growth"),
    "PassesWithoutOne": ("G3/absent-rank", "no-error"),
    "NamesNobody": ("G3/dead-before", "no-error"),
    "TakesItsTime": ("G3/absent-rank", "late"),
    "LeavesAtOnce": ("G4/host-leaves-after-broadcast", "lost"),
    "KeepsTheDeathToItself": ("G4/host-killed-idle", "late"),
    "ReadsTheWall": ("G5/clock-jumps-in-barrier", "late"),
    "ExpiresByTheWall": ("G5/clock-forward", "lost"),
}
"""The case that convicts each, and of what: of one of these kinds."""


class _Counting(Member):
    """Numbers the takes of a process, from 1."""

    takes = 0

    def receive(self, source: int, timeout: float, what: bytes = b"t") -> Any:
        self.takes += 1
        return self.nth(self.takes, source, timeout, what)

    def nth(self, take: int, source: int, timeout: float, what: bytes) -> Any:
        return super().receive(source, timeout, what)


class _Swaps(_Counting):
    def nth(self, take: int, source: int, timeout: float, what: bytes) -> Any:
        if take == 3:
            self.late = super().nth(take, source, timeout, what)
        return self.late if take == 4 else super().nth(take, source, timeout, what)


class SwapsTwo(GroupTarget):
    """Hands out the fourth object of a rank before the third."""

    member = _Swaps


class _Loses(_Counting):
    def nth(self, take: int, source: int, timeout: float, what: bytes) -> Any:
        if take == 3:
            super().nth(take, source, timeout, what)
        return super().nth(take, source, timeout, what)


class LosesOne(GroupTarget):
    """Skips an object in silence."""

    member = _Loses


class _Repeats(_Counting):
    def nth(self, take: int, source: int, timeout: float, what: bytes) -> Any:
        if take != 3:
            self.last = super().nth(take, source, timeout, what)
        return self.last


class RepeatsABroadcast(GroupTarget):
    """Hands out the second broadcast twice."""

    member = _Repeats


class _OneLane(Member):
    def lane(self, what: bytes, who: int) -> deque[bytes]:
        return super().lane(what, 0)


class MixesSenders(GroupTarget):
    """Keeps one lane for all who send to a rank."""

    member = _OneLane


class _Turned(Member):
    def gather(self, obj: Any, timeout: float) -> list[Any]:
        found = super().gather(obj, timeout)
        return found[self.rank :] + found[: self.rank]


class GathersAsTheyCome(GroupTarget):
    """Begins a gather's list with its own object."""

    member = _Turned


class _Keeps(Member):
    kept: tuple[Any, ...] = ()

    def receive(self, source: int, timeout: float, what: bytes = b"t") -> Any:
        self.kept = (*self.kept, super().receive(source, timeout, what))
        return self.kept[-1]


class KeepsWhatIsRead(GroupTarget):
    """Holds on to every object that was received."""

    member = _Keeps


class CountsUp(GroupTarget):
    """A store with a few entries more for each barrier."""

    entries = 0

    def group_barrier(self, end: Member, timeout: float | None) -> None:
        self.entries += 12
        super().group_barrier(end, timeout)

    def group_entries(self, end: Member) -> int:
        return self.entries


class _Hasty(Hub):
    def quorum(self) -> int:
        return self._count - 1


class PassesWithoutOne(GroupTarget):
    """A barrier ends when all but one have come."""

    hub = _Hasty


class _Discreet(Member):
    def barrier(self, timeout: float) -> None:
        try:
            super().barrier(timeout)
        except RankGone:
            raise RankGone("somebody died 2 s ago") from None


class NamesNobody(GroupTarget):
    """Tells that somebody died, and not who."""

    member = _Discreet


class _Slow(Member):
    def barrier(self, timeout: float) -> None:
        super().barrier(timeout * 3)


class TakesItsTime(GroupTarget):
    """A barrier takes three times its timeout."""

    member = _Slow


class _Lazy(Hub):
    """Passes a broadcast on a little later."""

    def passes_on(self, what: bytes, rank: int, who: int, turn: int, body: bytes) -> None:
        if what == b"a":
            later = super().passes_on
            threading.Timer(0.2, later, (what, rank, who, turn, body)).start()
        else:
            super().passes_on(what, rank, who, turn, body)


class _Rude(_Lazy):
    def close(self) -> None:
        with self._changed:
            for line in self._lines.values():
                line.close()


class LeavesAtOnce(GroupTarget):
    """The host goes before the others have what it sent."""

    hub = _Rude


class _Deaf(Member):
    def _listen(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                what, who, turn, body = self._line.take()
                with self._changed:
                    self._sort(what, who, turn, body)
                    self._changed.notify_all()


class KeepsTheDeathToItself(GroupTarget):
    """A rank that sees the host's connection end goes on waiting."""

    member = _Deaf


class _ByTheWall(Member):
    def now(self) -> float:
        return time.time()


class ReadsTheWall(GroupTarget):
    """Deadlines are on the wall clock."""

    member = _ByTheWall


class _Expires(Member):
    def __init__(self, *arguments: Any) -> None:
        self.since: dict[int, float] = {}
        super().__init__(*arguments)

    def _sort(self, what: bytes, who: int, turn: int, body: bytes) -> None:
        self.since[id(body)] = time.time()
        super()._sort(what, who, turn, body)

    def receive(self, source: int, timeout: float, what: bytes = b"t") -> Any:
        with self._changed:
            lane = self.lane(what, source)
            while lane and time.time() - self.since[id(lane[0])] > 3600:
                lane.popleft()
        return super().receive(source, timeout, what)


class ExpiresByTheWall(GroupTarget):
    """Drops what nobody has read for an hour of the wall clock."""

    member = _Expires


class _Drowsy(Member):
    def _listen(self) -> None:
        self._changed.notify_all = self._changed.notify
        super()._listen()


class WakesOne(ThreadsTarget):
    """News wake only one of the threads that wait, which may not be the one that they are for."""

    member = _Drowsy
