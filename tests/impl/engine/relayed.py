"""Replicas whose processes are short forks: they do as the test says, and tell it all they hear."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection, wait
from typing import Any

from refengine.coordinator import Addresses
from refengine.engine.core.process import CoreInit
from refengine.engine.protocol import Close, KvLinkResult, LinkKv, Ready
from refengine.engine.supervisor.replica import Replica
from refengine.executor.process import ChildProcess

from .pools import NOBODY

_FORK = multiprocessing.get_context("fork")
PATIENCE = 5.0


class Core:
    """One process: what it is told, and a way to have it say something."""

    def __init__(
        self,
        init: CoreInit,
        *,
        serves: bool = True,
        slow: bool = False,
        workers: tuple[int, ...] = (),
    ) -> None:
        self.init = init
        self.heard: list[Any] = []
        """All that its supervisor has told it."""
        self.pid = 0
        self._serves, self._slow, self._workers = serves, slow, workers or (NOBODY,)
        self._remote, self._theirs = multiprocessing.Pipe()

    @property
    def ready(self) -> Ready:
        """What it says of itself."""
        folder = self.init.folder
        return Ready(f"ipc://{folder}/front", f"ipc://{folder}/votes", self._workers)

    def say(self, *messages: Any) -> None:
        for message in messages:
            self._remote.send(message)

    def told(self, kind: type) -> list[Any]:
        """What it was told of that kind."""
        while self._remote.poll():
            try:
                self.heard.append(self._remote.recv())
            except EOFError:
                break
        return [message for message in self.heard if isinstance(message, kind)]

    def start(self, init: CoreInit, link: Connection, hears_death: Connection) -> ChildProcess:
        """In the place of `start_core`."""
        assert init == self.init
        pid = os.fork()
        if pid == 0:
            try:
                self._live(link, hears_death)
            finally:
                os._exit(1)
        return ChildProcess(pid)

    def _live(self, link: Connection, hears_death: Connection) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._remote.close()
        if self._serves:
            link.send(self.ready)
        while True:
            for end in wait([link, self._theirs, hears_death]):
                if end is hears_death:
                    os._exit(9)
                self._pass_on(end, link)

    def _pass_on(self, end: Any, link: Connection) -> None:
        try:
            message = end.recv()
        except (EOFError, OSError):
            os._exit(8)
        if end is self._theirs:
            link.send(message)
            return
        self._theirs.send(message)
        if isinstance(message, LinkKv) and self._serves:
            link.send(KvLinkResult(message.link))
        if isinstance(message, Close):
            if self._slow:
                self._theirs.recv()
                self._theirs.send("it has left")
            os._exit(0)


class Cores:
    """All that a supervisor has started, in order."""

    def __init__(self) -> None:
        self.all: list[Core] = []
        self.tries = 0
        self.mute: set[str] = set()
        """Who says nothing of itself."""
        self.slow = False
        """They leave once they are told to by the test, too."""
        self.failures: dict[str, Exception] = {}
        """Who cannot be started."""
        self.held = threading.Event()
        """Not set: a start takes until it is."""
        self.held.set()

    def new(self, init: CoreInit) -> Replica:
        """In the place of `Replica`."""
        self.tries += 1
        self.held.wait(PATIENCE)
        if init.name in self.failures:
            raise self.failures[init.name]
        core = Core(init, serves=init.name not in self.mute, slow=self.slow)
        self.all.append(core)
        replica = Replica(init, core.start)
        core.pid = replica.pid
        return replica

    def lives(self, name: str) -> list[Core]:
        return [core for core in self.all if core.init.name == name]

    def __getitem__(self, name: str) -> Core:
        """Its last life."""
        return self.lives(name)[-1]


class Coordinators:
    """All that were started: processes that do nothing."""

    def __init__(self) -> None:
        self.all: list[PaperCoordinator] = []
        self.failure: Exception | None = None

    def new(self, engines: int, *, timeout: float) -> Any:
        """In the place of `Coordinator`."""
        if self.failure is not None:
            raise self.failure
        self.all.append(PaperCoordinator(engines, timeout, len(self.all) + 1))
        return self.all[-1]


class PaperCoordinator:
    """One of them."""

    def __init__(self, engines: int, timeout: float, number: int) -> None:
        self.engines, self.timeout = engines, timeout
        place = f"ipc:///nowhere/{number}"
        self.addresses = Addresses(place, place, place)
        self.closed = False
        self._process = _FORK.Process(target=signal.pause)
        self._process.start()
        assert self._process.pid is not None
        self.pid, self.sentinel = self._process.pid, self._process.sentinel

    def close(self) -> None:
        self._process.join(PATIENCE)
        self.closed = self._process.exitcode is not None
