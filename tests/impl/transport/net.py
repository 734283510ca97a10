"""A hub and spokes of lines, and what they hear."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from refengine.base.security import Keys, SocketFactory
from refengine.transport import Client, Gone, Server

from ..relay import Relay

SILENCE = 2.0


class Ear:
    """A listener that keeps what it hears and wakes whoever waits for it."""

    def __init__(self) -> None:
        self.arrivals: list[int] = []
        self.breaks: list[tuple[str, int]] = []
        self.got: dict[int, list[bytes]] = {}
        self.ends: dict[int, Gone] = {}
        self.ended_at: dict[int, float] = {}
        self.refusals: list[tuple[int, str]] = []
        self._news = threading.Condition()

    def arrived(self, rank: int) -> None:
        with self._news:
            self.arrivals.append(rank)
            self._news.notify_all()

    def message(self, rank: int, body: memoryview) -> None:
        with self._news:
            self.got.setdefault(rank, []).append(bytes(body))
            self._news.notify_all()

    def gone(self, rank: int, how: Gone) -> None:
        with self._news:
            assert rank not in self.ends
            self.ends[rank] = how
            self.ended_at[rank] = time.monotonic()
            self._news.notify_all()

    def broken(self, rank: int) -> None:
        with self._news:
            self.breaks.append(("broken", rank))
            self._news.notify_all()

    def back(self, rank: int) -> None:
        with self._news:
            self.breaks.append(("back", rank))
            self._news.notify_all()

    def refused(self, rank: int, reason: str) -> None:
        with self._news:
            self.refusals.append((rank, reason))
            self._news.notify_all()

    def until(self, done: Callable[[], object], within: float = 10.0) -> None:
        with self._news:
            assert self._news.wait_for(done, within), vars(self)


class Net:
    """A hub and spokes, each through a relay of its own."""

    def __init__(
        self,
        undo: ExitStack,
        ranks: int = 1,
        host: str = "127.0.0.1",
        peer_timeout: float = SILENCE,
    ) -> None:
        self.undo, self.keys, self.ear = undo, Keys.fresh(), Ear()
        self.peer_timeout = peer_timeout
        self.server = Server(
            host,
            0,
            range(1, ranks + 1),
            self.keys,
            self.ear,
            sockets=SocketFactory(),
            peer_timeout=peer_timeout,
        )
        undo.callback(self.server.close, 0.0)
        self.relays: dict[int, Relay] = {}
        self.ears: dict[int, Ear] = {}
        self.clients: dict[int, Client] = {}
        for rank in range(1, ranks + 1):
            self.relays[rank] = Relay(self.server.address)
            undo.callback(self.relays[rank].close)
            self.clients[rank], self.ears[rank] = self.client(rank, self.relays[rank].address)
        self.ear.until(lambda: len(self.ear.arrivals) == ranks)
        for ear in self.ears.values():
            ear.until(lambda ear=ear: ear.arrivals)

    def client(
        self, rank: int, address: str, keys: Keys | None = None, patience: float | None = None
    ) -> tuple[Client, Ear]:
        ear = Ear()
        client = Client(
            address,
            rank,
            keys or self.keys,
            ear,
            sockets=SocketFactory(),
            peer_timeout=self.peer_timeout,
            patience=patience,
        )
        self.undo.callback(client.close, 0.0)
        return client, ear

    def check(self, count: int, rank: int = 1) -> None:
        """Both directions have had messages 0 … count-1, in order, once."""
        expected = [b"%d" % n for n in range(count)]
        self.ears[rank].until(lambda: len(self.ears[rank].got.get(0, ())) >= count)
        self.ear.until(lambda: len(self.ear.got.get(rank, ())) >= count)
        assert self.ears[rank].got[0] == expected
        assert self.ear.got[rank] == expected

    def post(self, first: int, count: int, rank: int = 1) -> None:
        for n in range(first, first + count):
            self.server.post(rank, b"%d" % n)
            self.clients[rank].post(0, b"%d" % n)


def once(done: Callable[[], object], within: float = 10.0) -> None:
    until = time.monotonic() + within
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)
