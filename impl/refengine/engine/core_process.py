"""A core's process: sockets, time and workers around what `Core` decides."""

import contextlib
import logging
import math
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import zmq

from .. import ownership
from ..clock import Clock, monotonic
from ..coordinator import EngineLink, EngineWave, Report
from ..executor.process import die_one_second_after_hangup, send_signal_at_hangup
from ..malformed import Dropped, Malformed
from . import wire
from .agreement import Agreement
from .core import Core, Deed, Relink, Step
from .loopback import HOST
from .messages import (
    Beat,
    Begin,
    Close,
    Down,
    Join,
    Joined,
    Made,
    Meet,
    Part,
    Peer,
    Peers,
    Ready,
    Refused,
    ToChild,
    Vote,
)
from .scheduler import Scheduler
from .settings import EngineSettings
from .stepper import Called, Failed, News, Started, Stepped, Stepper
from .worker_processes import WorkerProcesses

_log = logging.getLogger(__name__)
_Message = TypeVar("_Message")
_BEAT = 0.25  # seconds between two signs of life
_AT_ONCE = 64  # messages of one socket before the others have their turn
_TO_KILL = 1.0  # seconds for workers to be gone when nobody needs them any more


@dataclass(frozen=True)
class Birth:
    """What a core is told at its start."""

    name: str
    rank: int
    """Among the data-parallel replicas."""
    life: int
    settings: EngineSettings
    folder: str
    """Where it listens; it is removed with it."""
    parent: int
    waves: bool
    """Whether it steps together with others."""


def be_core(
    birth: Birth,
    link: Connection,
    death: Connection,
    stepper: Callable[[EngineSettings], Stepper] = Stepper,
) -> None:
    """In the child: serve until told to close, until the workers fail, or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's to handle
    die_one_second_after_hangup()
    send_signal_at_hangup(death.fileno(), os.getpid())
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"refengine:{birth.name}")  # the kernel cuts it
    os.umask(0o077)
    CoreProcess(birth, link, stepper(birth.settings)).serve()


class CoreProcess:
    """The shell. One thread turns; another has the workers step."""

    def __init__(
        self, birth: Birth, link: Connection, stepper: Stepper, clock: Clock = monotonic
    ) -> None:
        self._birth, self._link, self._clock = birth, link, clock
        settings = birth.settings
        wave = EngineWave(birth.rank) if birth.waves else None
        patience = min(5.0, settings.step_timeout)
        self._core = Core(Scheduler(settings), wave, Agreement(birth.rank, birth.life, patience))
        self._context: zmq.Context[Any] = zmq.Context()
        self._dropped = Dropped(_log)
        self._front, front = self._bind(zmq.DEALER, "front")
        self._votes, votes = self._bind(zmq.PULL, "votes")
        self._addresses = front, votes
        self._peers: dict[int, tuple[Peer, Any]] = {}
        self._coordinator: EngineLink | None = None
        self._meeting: Meet | None = None
        self._stepper = stepper
        self._workers = WorkerProcesses()
        self._ended = ""
        self._beat_at = float("-inf")
        self._told: tuple[int, int] | None = None
        self._poller = zmq.Poller()
        for thing in (self._link.fileno(), self._stepper.fileno(), self._front, self._votes):
            self._poller.register(thing, zmq.POLLIN)

    def serve(self) -> None:
        """Until the end."""
        try:
            self._stepper.start()
            while not self._ended:
                self._turn()
        except BaseException:
            self._ended = traceback.format_exc()
        finally:
            self._leave()

    # -- a turn ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        now = self._clock()
        due = min(self._core.due(), self._beat_at + _BEAT)
        ready = dict(self._poller.poll(math.ceil(max(0.0, due - now) * 1000)))
        if self._link.fileno() in ready:
            self._obey()
        if self._front in ready:
            self._serve_front()
        if self._votes in ready:
            for vote in self._messages(self._votes, wire.vote, "another core's vote"):
                self._do(self._core.vote(vote, self._clock()))
        for news in self._stepper.take():
            self._hear_workers(news)
        self._hear_coordinator()
        now = self._clock()
        self._do(self._core.tick(now))
        self._beat(now)

    def _obey(self) -> None:
        """What the supervisor says."""
        try:
            while not self._ended and self._link.poll():
                self._told_by_parent(self._link.recv())
        except (EOFError, OSError):
            self._orphaned()

    def _told_by_parent(self, message: ToChild) -> None:
        now = self._clock()
        match message:
            case Peers(by_rank):
                self._connect(by_rank)
                lives = {rank: peer.life for rank, peer in by_rank.items()}
                self._do(self._core.roster(lives, now))
            case Meet(era, _):
                self._meeting = message
                self._link_up()
                self._do(self._core.meet(era, now))
            case Join():
                args = message.link, HOST, message.ports, message.end, message.keys
                self._stepper.call(message, "kv_link", *args)
            case Part(link):
                self._stepper.call(message, "kv_unlink", link)
            case Close():
                self._ended = "it was told to close"

    def _serve_front(self) -> None:
        for message in self._messages(self._front, wire.to_core, "a front end's message"):
            now = self._clock()
            if isinstance(message, Begin):
                self._do(self._core.begin(message.request, now))
            else:
                self._do(self._core.cancel(message.id, now))

    def _messages(
        self, socket: Any, read: Callable[[bytes], _Message], what: str
    ) -> Iterator[_Message]:
        """What has come, up to a fair share; what makes no sense is dropped alone."""
        for _ in range(_AT_ONCE):
            try:
                message = read(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            except Malformed:
                self._dropped.add(what)
                continue
            yield message

    def _hear_workers(self, news: News) -> None:
        match news:
            case Started(pids):
                self._workers = WorkerProcesses(pids)
                self._link.send(Ready(*self._addresses, pids))
            case Stepped(results):
                self._do(self._core.stepped(results, self._clock()))
            case Called(Join(link), failure):
                self._link.send(Joined(link, failure))
            case Called():
                pass
            case Failed(cause):
                self._ended = self._ended or cause

    def _hear_coordinator(self) -> None:
        while self._coordinator is not None:
            news = self._coordinator.hear()
            if news is None:
                return
            self._obey()  # who is in a wave that begins was told before it began
            self._do(self._core.start(news, self._clock()))

    def _do(self, deeds: list[Deed]) -> None:
        for deed in deeds:
            match deed:
                case Made() | Refused():
                    self._front.send(wire.encode(deed))
                case Step(batch):
                    self._stepper.step(batch)
                case Vote():
                    self._cast(deed)
                case Report():
                    self._report(deed)
                case Relink():
                    self._link_up()

    def _cast(self, vote: Vote) -> None:
        frame = wire.encode(vote)
        for rank in self._core.agreement.members:
            if rank in self._peers:
                with contextlib.suppress(zmq.Again):
                    self._peers[rank][1].send(frame, zmq.NOBLOCK)

    def _report(self, report: Report) -> None:
        if self._coordinator is not None:
            with contextlib.suppress(zmq.Again):  # it is gone, and another will be told
                self._coordinator.send([report])

    def _beat(self, now: float) -> None:
        """A sign of life, now and then and when the load has changed."""
        core = self._core
        load = core.scheduler.waiting, core.scheduler.running
        if now < self._beat_at + _BEAT and load == self._told:
            return
        self._beat_at, self._told = now, load
        if os.getppid() != self._birth.parent:  # a copy of its end of the link may live on
            self._orphaned()
        since = core.stepping_since
        busy = 0.0 if since is None else now - since
        beat = Beat(*load, core.taken, core.steps, busy, core.imported, core.waits_for())
        with contextlib.suppress(zmq.Again):  # nobody has come yet
            self._front.send(wire.encode(beat), zmq.NOBLOCK)
        self._report(Report(self._birth.rank, counts=load))

    # -- what it is connected to ----------------------------------------------------------------

    def _bind(self, kind: int, name: str) -> tuple[Any, str]:
        socket: Any = self._context.socket(kind)
        for option in (zmq.LINGER, zmq.SNDHWM, zmq.RCVHWM):
            socket.setsockopt(option, 0)
        path = Path(self._birth.folder, name)
        socket.bind(f"ipc://{path}")
        path.chmod(0o600)
        return socket, f"ipc://{path}"

    def _connect(self, by_rank: dict[int, Peer]) -> None:
        for rank, (peer, socket) in list(self._peers.items()):
            if by_rank.get(rank) != peer:
                socket.close()
                del self._peers[rank]
        for rank, peer in by_rank.items():
            if rank != self._birth.rank and rank not in self._peers:
                socket = self._context.socket(zmq.PUSH)
                socket.setsockopt(zmq.LINGER, 0)
                socket.connect(peer.votes)
                self._peers[rank] = peer, socket

    def _link_up(self) -> None:
        """A fresh link: the coordinator sees this replica come."""
        if self._meeting is None:
            return
        if self._coordinator is not None:
            self._poller.unregister(self._coordinator.fileno())
            self._coordinator.close()
        self._coordinator = EngineLink(self._meeting.addresses, self._birth.rank, self._clock)
        self._poller.register(self._coordinator.fileno(), zmq.POLLIN)

    # -- the end --------------------------------------------------------------------------------

    def _leave(self) -> None:
        """In good order, as far as workers go along."""
        with contextlib.suppress(OSError):
            self._link.send(Down(self._ended))
        try:
            self._stepper.shut_down()
        finally:
            self._context.destroy(linger=0)
            if self._coordinator is not None:
                self._coordinator.close()
            ownership.remove_directory(Path(self._birth.folder))

    def _orphaned(self) -> None:
        """The parent is gone: nothing may stay, and nobody waits for good order."""
        try:
            self._workers.kill(_TO_KILL)
            ownership.remove_directory(Path(self._birth.folder))
            ownership.remove_own()
            ownership.sweep()
        finally:
            os._exit(1)
