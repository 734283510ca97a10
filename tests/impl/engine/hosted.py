"""A core's shell in a thread of the test's process, and whatever it talks to."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq

from refengine.base import ownership
from refengine.base.clock import Clock, monotonic
from refengine.base.fds import Fd
from refengine.coordinator import Addresses, Report, Start, State
from refengine.coordinator import protocol as coordinator_wire
from refengine.engine import protocol
from refengine.engine.core.process import CoreInit, CoreProcess
from refengine.engine.protocol import Close, Heartbeat, Output, Ready, Vote
from refengine.engine.settings import EngineSettings

from .pools import Pool

PATIENCE = 5.0


class Sockets:
    """What the test listens and talks with; each waits at most `PATIENCE`."""

    def __init__(self) -> None:
        self.context: Any = zmq.Context()
        self.folder = ownership.new_directory()
        self._made: list[Any] = []  # one that is forgotten would warn that it was not closed

    def bind(self, kind: int, name: str, room: int = 0) -> tuple[Any, str]:
        """``room``: messages that wait there to be taken; 0: any number."""
        socket, address = self._socket(kind), f"ipc://{self.folder}/{name}"
        socket.setsockopt(zmq.RCVHWM, room)
        socket.bind(address)
        return socket, address

    def connect(self, kind: int, address: str) -> Any:
        socket = self._socket(kind)
        socket.connect(address)
        return socket

    def close(self) -> None:
        self.context.destroy(linger=0)
        ownership.remove_directory(self.folder)

    def _socket(self, kind: int) -> Any:
        socket = self.context.socket(kind)
        for option, value in ((zmq.LINGER, 0), (zmq.SNDHWM, 0), (zmq.RCVHWM, 0)):
            socket.setsockopt(option, value)
        for option in (zmq.RCVTIMEO, zmq.SNDTIMEO):
            socket.setsockopt(option, int(PATIENCE * 1000))
        self._made.append(socket)
        return socket


class Hosted:
    """A core that serves until the test's end, with workers on paper."""

    def __init__(
        self,
        pool: Pool | None = None,
        *,
        rank: int = 0,
        waves: bool = False,
        clock: Clock = monotonic,
        **given: Any,
    ) -> None:
        self.pool = pool or Pool()
        self.sockets = Sockets()
        self.folder = ownership.new_directory()
        self.link, theirs = multiprocessing.Pipe()
        settings = EngineSettings(**given)
        self.init = CoreInit(f"core-{rank}", rank, 1, settings, str(self.folder), waves)
        self.parent = Fd(os.pidfd_open(os.getppid()))
        stepper = self.pool.stepper(settings)
        self.core = CoreProcess(self.init, theirs, self.parent, stepper, clock)
        self.thread = threading.Thread(target=self.core.serve, daemon=True)
        self.front: Any = None

    def start(self) -> Hosted:
        """Until it says where it can be reached."""
        self.thread.start()
        ready = self.hear()
        assert isinstance(ready, Ready), ready
        self.ready = ready
        self.front = self.sockets.connect(zmq.DEALER, ready.front)
        return self

    def hear(self) -> Any:
        """What the core tells its supervisor next."""
        assert self.link.poll(PATIENCE), "the core says nothing to its supervisor"
        return self.link.recv()

    def say(self, *messages: Any) -> None:
        """From the supervisor."""
        for message in messages:
            self.link.send(message)

    def ask(self, *messages: Any) -> None:
        """From the front end."""
        for message in messages:
            self.front.send(protocol.encode(message))

    def answer(self, kind: type = object) -> Any:
        """The next of that kind that comes to the front end; others are dropped."""
        while True:
            message = protocol.decode_from_core(self.front.recv())
            if isinstance(message, kind):
                return message

    def beat(self, wanted: Callable[[Heartbeat], bool]) -> Heartbeat:
        """A sign of life that tells so."""
        while not wanted(beat := self.answer(Heartbeat)):
            pass
        return beat

    def made(self, request_id: str) -> tuple[tuple[int, ...], str | None]:
        """All that comes of a request, and its finish; None: it was refused."""
        tokens: tuple[int, ...] = ()
        while True:
            message = self.answer()
            for output in getattr(message, "outputs", ()):
                assert isinstance(output, Output)
                if output.id == request_id:
                    tokens += output.tokens
                    if output.finish is not None:
                        return tokens, output.finish

    def close(self) -> None:
        """Whatever it is at."""
        self.pool.held.set()
        if self.thread.is_alive():
            self.say(Close())
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the core does not close"
        self.link.close()
        self.parent.close()
        self.sockets.close()
        ownership.remove_directory(self.folder)


class PaperCoordinator:
    """Sockets where a coordinator would be: says what the test says, and hears the replicas."""

    def __init__(self, sockets: Sockets, name: str = "") -> None:
        self.starts, starts = sockets.bind(zmq.XPUB, f"starts{name}")
        self.starts.setsockopt(zmq.XPUB_VERBOSER, 1)
        self.reports, reports = sockets.bind(zmq.PULL, f"reports{name}")
        self.addresses = Addresses("", reports, starts)
        self._heard: list[bytes] = []

    def come(self, rank: int) -> None:
        """Until that replica listens."""
        self._hear(b"\1" + coordinator_wire.topic_of(rank))

    def gone(self, rank: int) -> None:
        """Until it does not any more."""
        self._hear(b"\0" + coordinator_wire.topic_of(rank))

    def _hear(self, wanted: bytes) -> None:
        """Who comes anew over another connection may be heard before the old one ends."""
        while wanted not in self._heard:
            self._heard.append(self.starts.recv())
        self._heard.remove(wanted)

    def publish(self, news: Start | State) -> None:
        self.starts.send_multipart([coordinator_wire.ALL_REPLICAS, coordinator_wire.encode(news)])

    def report(self, wanted: Callable[[Report], Any]) -> Report:
        """The next that is so; others are dropped."""
        while True:
            report, wrong = coordinator_wire.decode_report(self.reports.recv())
            assert report is not None, wrong
            if wanted(report):
                return report


def vote(socket: Any) -> Vote:
    """The next that comes there."""
    return protocol.decode_vote(socket.recv())


def modes(folder: Path) -> dict[str, int]:
    """What others may do with what is in a folder."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
