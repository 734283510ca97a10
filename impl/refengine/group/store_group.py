"""The same group over a key-value store such as torch's TCPStore, for programs that have one.

The store need not be trusted with objects: each value carries a code over its place and its
bytes, made with a key that only members have, and is unpickled only after that was checked. What
a store cannot give: objects are not secret from it or its network; it can withhold or delete
them, and replay those of an older group of the same `name` and `key`, so give each a key of its
own; a death shows as a deadline that passes; a barrier that gave up still counts as come. Errors
of the store itself are passed on. Use `Group` where you can.
"""

import hmac
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from ..base.cleanup import append_atomically
from ..base.clock import Clock, Deadline, monotonic
from ..base.reentrancy import ReentrancyGuard
from ..base.security import Keys
from ..errors import BarrierFailed, DeadlinePassed, ForkedCopy, NotAuthentic, Undecodable
from .inbox import decode_body
from .protocol import Kind, pack_object, unpack

_CODE_BYTES = 32
_WINDOW = 1024
_PAUSES = 0.0005, 0.02
_T = TypeVar("_T")
_Numbers = dict[tuple[str, int], int]
_Outbox = tuple[_Numbers, list[tuple[str, bytes]], list[object]]
"""Numbers sent once it is empty; values; and the store's answer to each that it has had."""


class Store(Protocol):
    """Operations used of a store."""

    def set(self, key: str, value: Any, /) -> Any:
        """Store these bytes."""
        ...

    def get(self, key: str, /) -> bytes:
        """Return the bytes stored for a key."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Return whether all of these keys are there."""
        ...

    def delete_key(self, key: str, /) -> bool:
        """Remove a key, if it is there."""
        ...


class StoreGroup:
    """One rank's membership; rank 0 is the one whose process holds the store.

    A value is for one receiver, who deletes it; at most 1024 wait unread for it from each sender,
    who waits then, for `timeout` seconds. One call at a time: a second one raises Busy.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        world_size: int,
        *,
        key: bytes,
        name: str = "group",
        timeout: float = 300.0,
        clock: Clock = monotonic,
    ) -> None:
        self.rank, self.world_size = rank, world_size
        self._store, self._keys, self._name = store, Keys.from_secret(key), name
        self._timeout, self._clock = timeout, clock
        self._others = [other for other in range(world_size) if other != rank]
        self._sent: _Numbers = {}
        self._taken: _Numbers = {}
        self._outbox: _Outbox | None = None
        self._kept: dict[tuple[str, int], tuple[int, memoryview]] = {}
        self._guard = ReentrancyGuard()
        self._pid = os.getpid()

    def send_obj(self, obj: object, dst: int) -> None:
        """Send to rank `dst`."""
        self._call("send_obj", lambda: self._post("letter", [dst], obj))

    def recv_obj(self, src: int, timeout: float | None = None) -> Any:
        """Return the next object that rank `src` sent to this one."""
        return self._call("recv_obj", lambda: self._take("letter", [src], timeout)[0])

    def broadcast_obj(self, obj: object, src: int, timeout: float | None = None) -> Any:
        """At `src`: send `obj` to all others. Elsewhere: return the next object that it sent so."""
        if src != self.rank:
            return self._call("broadcast_obj", lambda: self._take("cast", [src], timeout)[0])
        self._call("broadcast_obj", lambda: self._post("cast", self._others, obj))
        return obj

    def all_gather_obj(self, obj: object, timeout: float | None = None) -> list[Any]:
        """Return every rank's object, in rank order; a retried call sends its first object."""
        got = self._call("all_gather_obj", lambda: self._meet("gather", obj, timeout))
        return [*got[: self.rank], obj, *got[self.rank :]]

    def barrier(self, timeout: float | None = 30.0) -> None:
        """Return once every rank has called it; BarrierFailed names those that have not."""
        self._call("barrier", lambda: self._meet("barrier", None, timeout))

    def close(self, timeout: float = 5.0) -> None:
        """Rank 0 lingers, at most that long, until all others have closed: it holds the store."""
        if self._pid == os.getpid():
            self._call("close", lambda: self._part(timeout))

    def _part(self, timeout: float) -> None:
        if self.rank != 0:
            if not self._sent.get(("bye", 0)):
                self._post("bye", [0], None)
        elif not any(kind == "bye" for kind, _ in self._taken):
            try:
                self._take("bye", self._others, timeout)
            except DeadlinePassed:
                return

    def _call(self, operation: str, act: Callable[[], _T]) -> _T:
        """Run one call at a time; if it raises, its result stays for the next one (R9)."""
        if self._pid != os.getpid():
            raise ForkedCopy(self._pid, "group")
        guard, before = self._guard, self._taken
        guard.enter(operation)
        try:
            self._flush()
            result = act()
            guard.exit()
            return result  # noqa: TRY300  an exception on the way out is one of those caught
        except BaseException as error:
            if not isinstance(error, Undecodable):
                self._taken = before
            guard.exit()
            raise

    # -- out --------------------------------------------------------------------------------

    def _post(self, kind: str, to: Iterable[int], obj: object) -> None:
        sent, values = dict(self._sent), list[tuple[str, bytes]]()
        frame = pack_object(Kind.LETTER, self.rank, 0, 0, obj)
        for dst in to:
            number = sent.get((kind, dst), 0)
            self._await_room(kind, dst, number)
            place = self._place(kind, self.rank, dst, number)
            values.append((place, self._code(place, frame) + frame))
            sent[kind, dst] = number + 1
        self._outbox = sent, values, []  # from here on it is sent, at the latest by the next call
        self._flush()

    def _flush(self) -> None:
        """Store what is not yet stored. A value stored again would come back after its reading."""
        if self._outbox is not None:
            sent, values, stored = self._outbox
            for place, value in values[len(stored) :]:
                append_atomically(stored, self._store.set, place, value)
            self._sent = sent
            self._outbox = None

    def _await_room(self, kind: str, dst: int, number: int) -> None:
        if number >= _WINDOW:
            oldest = self._place(kind, self.rank, dst, number - _WINDOW)
            left = Deadline(self._timeout, self._clock).remaining
            self._await(lambda: not self._store.check([oldest]), left, f"rank {dst} to receive")

    # -- in ---------------------------------------------------------------------------------

    def _take(self, kind: str, sources: list[int], timeout: float | None) -> list[Any]:
        left = Deadline(timeout, self._clock).remaining
        for src in sources:
            try:
                self._fetch(kind, src, left)
            except DeadlinePassed:
                raise self._too_late(kind, sources, timeout or 0) from None
        numbers = {(kind, src): self._taken.get((kind, src), 0) for src in sources}
        after = self._taken | {place: number + 1 for place, number in numbers.items()}

        def consume() -> None:
            self._taken = after

        objects = [
            decode_body(self._kept[place][1], number, consume) for place, number in numbers.items()
        ]
        consume()
        return objects

    def _fetch(self, kind: str, src: int, left: Callable[[], float | None]) -> None:
        """Read the next value into `_kept`, where it stays until the one after replaces it."""
        number = self._taken.get((kind, src), 0)
        place = self._place(kind, src, self.rank, number)
        kept = self._kept.get((kind, src))
        if kept is None or kept[0] != number:
            self._await(lambda: self._store.check([place]), left, place)
            value = memoryview(self._store.get(place))
            code, frame = bytes(value[:_CODE_BYTES]), value[_CODE_BYTES:]
            if not hmac.compare_digest(code, self._code(place, frame)):
                raise NotAuthentic(place)
            self._kept[kind, src] = number, unpack(frame).body
        self._store.delete_key(place)

    def _meet(self, kind: str, obj: object, timeout: float | None) -> list[Any]:
        if not self._others:
            return []
        first = kind, self._others[0]
        if self._sent.get(first, 0) == self._taken.get(first, 0):
            self._post(kind, self._others, obj)
        return self._take(kind, self._others, timeout)

    def _too_late(self, kind: str, sources: list[int], seconds: float) -> DeadlinePassed:
        absent: list[int] = []
        for src in sources:
            try:
                self._fetch(kind, src, lambda: 0.0)
            except DeadlinePassed:
                absent.append(src)
        if kind == "barrier":
            return BarrierFailed(absent, seconds)
        ranks = ", ".join(map(str, absent))
        return DeadlinePassed(f"a {kind} of rank(s) {ranks}", seconds)

    def _await(
        self, is_so: Callable[[], bool], left: Callable[[], float | None], waiting_for: str
    ) -> None:
        pause, longest = _PAUSES
        nobody = threading.Event()
        while not is_so():
            seconds = left()
            if seconds is not None and seconds <= 0:
                raise DeadlinePassed(waiting_for, 0)
            nobody.wait(pause if seconds is None else min(pause, seconds))
            pause = min(longest, pause * 2)

    def _place(self, kind: str, src: int, dst: int, number: int) -> str:
        return f"{self._name}/{kind}/{src}>{dst}/{number}"

    def _code(self, place: str, frame: bytearray | memoryview) -> bytes:
        """Return the code of a value and its place, so that the store cannot move a value."""
        code = hmac.new(self._keys.secret, f"{len(place)}:{place}".encode(), "sha256")
        code.update(frame)
        return code.digest()
