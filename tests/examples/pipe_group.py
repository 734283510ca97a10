"""A process group over plain sockets: rank 0 has a hub, which passes everything on.

It is here to be judged (docs/targets.md), and knows nothing of who judges it. What is sent lies
in its taker's own memory at once, so nobody's leaving takes it away. A connection that ends
without a goodbye is a death: the hub tells all of a member's, and its own ends every connection.
What it does not hold: a taker that never takes is not slowed down, its memory grows.
"""

from __future__ import annotations

import contextlib
import hmac
import pickle
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

    from killpoint.targets.protocol import Capability, GroupShape, Outcome

_HEAD = struct.Struct("!cHQQ")
"""What it is, which rank it is about, the round of a barrier, the bytes that follow."""
_HELLO, _GO, _TO, _ALL, _HERE, _PASS, _DEAD, _BYE = (bytes([c]) for c in b"hgtaopxb")
_DEFAULT, _LINGER = 30.0, 8.0


class RankGone(Exception):
    """A rank died or left; the text names it."""


class Line:
    """One connection of packets, written by any thread and read by one."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._writing = threading.Lock()

    def put(self, what: bytes, who: int = 0, turn: int = 0, body: bytes = b"") -> None:
        with self._writing:
            self._sock.sendall(_HEAD.pack(what, who, turn, len(body)) + body)

    def take(self) -> tuple[bytes, int, int, bytes]:
        what, who, turn, size = _HEAD.unpack(self._read(_HEAD.size))
        return what, who, turn, self._read(size)

    def _read(self, size: int) -> bytes:
        whole = bytearray(size)
        view = memoryview(whole)
        while view:
            count = self._sock.recv_into(view)
            if not count:
                raise EOFError
            view = view[count:]
        return bytes(whole)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


class Hub:
    """What rank 0 has beside its own membership: it passes on, and counts who has come."""

    def __init__(self, address: tuple[str, int], count: int, secret: bytes) -> None:
        self._count, self._secret = count, secret
        self._lines: dict[int, Line] = {}
        self._here: dict[int, set[int]] = {}
        self._dead = False
        self._changed = threading.Condition()
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._door = socket.create_server(address, family=family)
        threading.Thread(target=self._welcome, daemon=True).start()

    def _welcome(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                guest = Line(self._door.accept()[0])
                threading.Thread(target=self._serve, args=(guest,), daemon=True).start()

    def _serve(self, line: Line) -> None:
        what, rank, _, proof = line.take()
        if what != _HELLO or not hmac.compare_digest(proof, _proof(self._secret, rank)):
            line.close()
            return
        with self._changed:
            self._lines[rank] = line
            if len(self._lines) == self._count:
                self.tell(self._lines, _GO)
        word = _DEAD
        with contextlib.suppress(OSError, EOFError):
            while word != _BYE:
                word, who, turn, body = line.take()
                self.passes_on(word, rank, who, turn, body)
        with self._changed:
            del self._lines[rank]
            if word != _BYE:
                self._dead = True
                self.tell(self._lines, _DEAD, rank)
            self._changed.notify_all()

    def passes_on(self, what: bytes, rank: int, who: int, turn: int, body: bytes) -> None:
        if what == _TO:
            self.tell([who], _TO, rank, 0, body)
        elif what == _ALL:
            self.tell([other for other in range(self._count) if other != rank], _ALL, rank, 0, body)
        elif what == _HERE:
            with self._changed:
                come = self._here.setdefault(turn, set())
                come.add(rank)
                self.tell(self._lines, _HERE, rank, turn)
                if len(come) >= self.quorum() and not self._dead:
                    self.tell(self._lines, _PASS, 0, self._here.pop(turn) and turn)

    def quorum(self) -> int:
        return self._count

    def tell(self, ranks: Iterable[int], *packet: Any) -> None:
        for rank in list(ranks):
            line = self._lines.get(rank)
            if line:
                with contextlib.suppress(OSError):
                    line.put(*packet)

    def close(self) -> None:
        """Stay until the others have said goodbye, but not for ever."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, _LINGER)
        self._door.close()


class Member:
    """One rank's end: a thread sorts what comes in, calls wait for it."""

    hub: Hub | None = None

    def __init__(self, rank: int, count: int, line: Line) -> None:
        self.rank, self._count, self._line = rank, count, line
        self._lanes: dict[tuple[bytes, int], deque[bytes]] = {}
        self._here: dict[int, set[int]] = {}
        self._passed: set[int] = set()
        self._gone: set[int] = set()
        self._round = 0
        self._started = self._left = False
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                what, who, turn, body = self._line.take()
                with self._changed:
                    self._sort(what, who, turn, body)
                    self._changed.notify_all()
        with self._changed:
            self._gone |= set() if self._left else {0}
            self._changed.notify_all()

    def _sort(self, what: bytes, who: int, turn: int, body: bytes) -> None:
        if what in (_TO, _ALL):
            self.lane(what, who).append(body)
        elif what == _HERE:
            self._here.setdefault(turn, set()).add(who)
        elif what == _PASS:
            self._passed.add(turn)
        elif what == _DEAD:
            self._gone.add(who)
        else:
            self._started = True

    def lane(self, what: bytes, who: int) -> deque[bytes]:
        return self._lanes.setdefault((what, who), deque())

    def _until(self, done: Callable[[], object], end: float, what: str, *about: int) -> None:
        """Wait under the lock; the death of a rank that it is about, or of the host, ends it."""
        while not done():
            gone = sorted(self._gone & {0, *about})
            if gone:
                raise RankGone(f"rank {gone[0]} died: {what} waits in vain")
            left = end - self.now()
            if left <= 0:
                raise TimeoutError(f"{what} ran out")
            self._changed.wait(left)

    def now(self) -> float:
        return time.monotonic()

    def say(self, *packet: Any) -> None:
        try:
            self._line.put(*packet)
        except OSError as error:
            raise RankGone(f"rank 0, the host, is gone: {error}") from error

    def begin(self, timeout: float) -> None:
        with self._changed:
            self._until(lambda: self._started, self.now() + timeout, "the start")

    def send(self, obj: Any, to: int) -> None:
        self.say(_TO, to, 0, pickle.dumps(obj, protocol=5))

    def receive(self, source: int, timeout: float, what: bytes = _TO) -> Any:
        with self._changed:
            lane, end = self.lane(what, source), self.now() + timeout
            self._until(lambda: lane, end, f"the wait for rank {source}", source)
            body = lane.popleft()
        return pickle.loads(body)

    def broadcast(self, obj: Any, source: int, timeout: float) -> Any:
        if source != self.rank:
            return self.receive(source, timeout, _ALL)
        self.say(_ALL, source, 0, pickle.dumps(obj, protocol=5))
        return obj

    def gather(self, obj: Any, timeout: float) -> list[Any]:
        end = self.now() + timeout
        self.broadcast(obj, self.rank, timeout)
        ranks = range(self._count)
        return [
            obj if rank == self.rank else self.receive(rank, end - self.now(), _ALL)
            for rank in ranks
        ]

    def barrier(self, timeout: float) -> None:
        turn, self._round = self._round, self._round + 1
        self.say(_HERE, 0, turn)
        end, ranks = self.now() + timeout, range(self._count)
        with self._changed:
            try:
                self._until(lambda: turn in self._passed, end, "the barrier", *ranks)
            except TimeoutError as error:
                absent = set(ranks) - self._here.get(turn, set())
                names = " and ".join(f"rank {rank}" for rank in sorted(absent))
                raise TimeoutError(f"the barrier ran out: {names} did not come") from error
            finally:
                self._here.pop(turn, None)
                self._passed.discard(turn)

    def leave(self) -> None:
        self._left = True
        with contextlib.suppress(RankGone):
            self.say(_BYE)
        if self.hub:
            self.hub.close()
        self._line.close()


def join(member: Member, secret: bytes, timeout: float) -> None:
    """Say who it is, and wait for all."""
    member.say(_HELLO, member.rank, 0, _proof(secret, member.rank))
    member.begin(timeout)


def _proof(secret: bytes, rank: int) -> bytes:
    return hmac.digest(secret, str(rank).encode(), "sha256")


def _reach(address: tuple[str, int], timeout: float) -> Line:
    """Knock until the host opens."""
    end = time.monotonic() + timeout
    while True:
        try:
            return Line(socket.create_connection(address, timeout=None))
        except ConnectionRefusedError as error:
            if time.monotonic() > end:
                raise TimeoutError(f"rank 0 did not open {address} in time") from error
            select.select([], [], [], 0.01)


class GroupTarget:
    """What killpoint is given: the six calls of a group, and four facts about it."""

    name = "pipe_group"
    version = "1"
    capabilities: frozenset[Capability] = frozenset(("group", "points"))
    preloads: tuple[str, ...] = ()  # it needs no torch
    member: type[Member] = Member
    hub: type[Hub] = Hub

    def load(self) -> None:
        """Importing this module has done it."""

    def join(
        self,
        shape: GroupShape,
        address: tuple[str, int],
        rank: int,
        secret: bytes,
        timeout: float | None,
    ) -> Member:
        limit = _DEFAULT if timeout is None else timeout
        end = time.monotonic() + limit
        hub = self.hub((shape.host, address[1]), shape.ranks, secret) if rank == 0 else None
        found = self.member(rank, shape.ranks, _reach(address, limit))
        found.hub = hub
        join(found, secret, max(0.0, end - time.monotonic()))
        return found

    def group_send(self, end: Member, obj: Any, to: int) -> None:
        end.send(obj, to)

    def group_receive(self, end: Member, source: int, timeout: float | None) -> Any:
        return end.receive(source, _DEFAULT if timeout is None else timeout)

    def group_broadcast(self, end: Member, obj: Any, source: int, timeout: float | None) -> Any:
        return end.broadcast(obj, source, _DEFAULT if timeout is None else timeout)

    def group_gather(self, end: Member, obj: Any, timeout: float | None) -> list[Any]:
        return end.gather(obj, _DEFAULT if timeout is None else timeout)

    def group_barrier(self, end: Member, timeout: float | None) -> None:
        end.barrier(_DEFAULT if timeout is None else timeout)

    def group_leave(self, end: Member) -> None:
        end.leave()

    def classify(self, error: BaseException) -> Outcome:
        if isinstance(error, TimeoutError):
            return "timeout"
        return "peer-died" if isinstance(error, RankGone) else "error"

    def is_own_code(self, code: CodeType) -> bool:
        return code.co_filename == __file__


class ThreadsTarget(GroupTarget):
    """The same, whose ranks may wait in several calls at once: all of them hear all news.

    Not in a gather and a broadcast: a gather is made of broadcasts.
    """

    capabilities: frozenset[Capability] = GroupTarget.capabilities | {"group_threads"}
