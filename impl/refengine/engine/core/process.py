"""A core's process: sockets, time and workers around the decisions of `Core`."""

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

from ...base import ownership
from ...base.clock import Clock, monotonic
from ...base.fds import Fd
from ...base.frame_decoding import DropCounter, Malformed
from ...coordinator import EngineLink, EngineWave, Report
from ...executor.process import await_end, die_one_second_after_hangup, send_signal_at_hangup
from .. import protocol
from ..loopback import HOST
from ..protocol import (
    AddRequest,
    Close,
    ConnectCoordinator,
    Heartbeat,
    KvLinkResult,
    LinkKv,
    Outputs,
    Peer,
    Peers,
    Ready,
    Refused,
    ReplicaDown,
    ToChild,
    UnlinkKv,
    Vote,
)
from ..settings import EngineSettings
from .core import Action, Core, ReconnectCoordinator, Step
from .scheduler import Scheduler
from .wave_allreduce import WaveAllReduce
from .worker_processes import WorkerProcesses
from .worker_stepper import Called, Failed, Started, Stepped, StepperEvent, WorkerStepper

_log = logging.getLogger(__name__)
_Message = TypeVar("_Message")
_HEARTBEAT = 0.25  # seconds between two heartbeats
_MESSAGES_A_TURN = 64  # messages of one socket before the others have their turn
_TO_KILL = 1.0  # seconds for workers to be gone after the parent's death


@dataclass(frozen=True)
class CoreInit:
    """Arguments of a core's process."""

    name: str
    rank: int
    """Rank among the data-parallel replicas."""
    life: int
    settings: EngineSettings
    folder: str
    """Folder of its sockets; removed when it ends."""
    waves: bool
    """True if it steps together with other replicas, in waves."""


def core_main(
    init: CoreInit,
    link: Connection,
    death: Connection,
    parent: Fd,
    stepper: Callable[[EngineSettings], WorkerStepper] = WorkerStepper,
) -> None:
    """Serve, in the core's process, until a `Close`, a failure of the workers, or the parent's end.

    Args:
        death: reading end of a pipe whose writing end is the supervisor's alone.
        parent: pidfd of the supervisor.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's to handle
    die_one_second_after_hangup()
    send_signal_at_hangup(death.fileno(), os.getpid())
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"refengine:{init.name}")  # the kernel cuts it
    os.umask(0o077)
    CoreProcess(init, link, parent, stepper(init.settings)).serve()


class CoreProcess:
    """Shell of a core: this thread owns the sockets; the stepper's thread runs the workers."""

    def __init__(
        self,
        init: CoreInit,
        link: Connection,
        parent: Fd,
        stepper: WorkerStepper,
        clock: Clock = monotonic,
    ) -> None:
        self._init, self._link, self._parent, self._clock = init, link, parent, clock
        settings = init.settings
        wave = EngineWave(init.rank) if init.waves else None
        peer_timeout = min(5.0, settings.step_timeout)
        self._core = Core(
            Scheduler(settings), wave, WaveAllReduce(init.rank, init.life, peer_timeout)
        )
        self._context: zmq.Context[Any] = zmq.Context()
        self._dropped = DropCounter(_log)
        self._front, front = self._bind(zmq.DEALER, "front")
        self._votes, votes = self._bind(zmq.PULL, "votes")
        self._addresses = front, votes
        self._peers: dict[int, tuple[Peer, Any]] = {}
        self._coordinator: EngineLink | None = None
        self._connect_message: ConnectCoordinator | None = None
        self._stepper = stepper
        self._workers = WorkerProcesses()
        self._ended = ""
        self._heartbeat_at = float("-inf")
        self._reported_load: tuple[int, int] | None = None
        self._poller = zmq.Poller()
        for thing in (self._link.fileno(), self._stepper.fileno(), self._front, self._votes):
            self._poller.register(thing, zmq.POLLIN)

    def serve(self) -> None:
        """Serve until the end."""
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
        due = min(self._core.due(), self._heartbeat_at + _HEARTBEAT)
        ready = dict(self._poller.poll(math.ceil(max(0.0, due - now) * 1000)))
        if self._link.fileno() in ready:
            self._hear_supervisor()
        if self._front in ready:
            self._serve_front()
        if self._votes in ready:
            for vote in self._messages(self._votes, protocol.decode_vote, "another core's vote"):
                self._carry_out(self._core.vote(vote, self._clock()))
        for event in self._stepper.take():
            self._hear_workers(event)
        self._hear_coordinator()
        now = self._clock()
        self._carry_out(self._core.tick(now))
        self._send_heartbeat(now)

    def _hear_supervisor(self) -> None:
        """Take the supervisor's messages."""
        try:
            while not self._ended and self._link.poll():
                self._on_message(self._link.recv())
        except (EOFError, OSError):
            self._orphaned()

    def _on_message(self, message: ToChild) -> None:
        now = self._clock()
        match message:
            case Peers(by_rank):
                self._connect(by_rank)
                lives = {rank: peer.life for rank, peer in by_rank.items()}
                self._carry_out(self._core.peers_changed(lives, now))
            case ConnectCoordinator(era, _):
                self._connect_message = message
                self._connect_coordinator()
                self._carry_out(self._core.coordinator_replaced(era, now))
            case LinkKv():
                args = message.link, HOST, message.ports, message.end, message.keys
                self._stepper.call(message, "kv_link", *args)
            case UnlinkKv(link):
                self._stepper.call(message, "kv_unlink", link)
            case Close():
                self._ended = "it was told to close"

    def _serve_front(self) -> None:
        for message in self._messages(
            self._front, protocol.decode_to_core, "a front end's message"
        ):
            now = self._clock()
            if isinstance(message, AddRequest):
                self._carry_out(self._core.add_request(message.request, now))
            else:
                self._carry_out(self._core.cancel(message.id, now))

    def _messages(
        self, socket: Any, read: Callable[[bytes], _Message], what: str
    ) -> Iterator[_Message]:
        """Yield a fair share of the socket's messages; malformed ones are dropped."""
        for _ in range(_MESSAGES_A_TURN):
            try:
                message = read(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            except Malformed:
                self._dropped.add(what)
                continue
            yield message

    def _hear_workers(self, event: StepperEvent) -> None:
        match event:
            case Started(pids):
                self._workers = WorkerProcesses(pids)
                self._link.send(Ready(*self._addresses, pids))
            case Stepped(results):
                self._carry_out(self._core.stepped(results, self._clock()))
            case Called(LinkKv(link), failure):
                self._link.send(KvLinkResult(link, failure))
            case Called():
                pass
            case Failed(cause):
                self._ended = self._ended or cause

    def _hear_coordinator(self) -> None:
        while (link := self._coordinator) is not None:
            event = link.hear()
            if event is None:
                return
            self._hear_supervisor()  # the supervisor tells of a wave's members before it begins
            if self._coordinator is link:  # else it is of a coordinator that was replaced just now
                self._carry_out(self._core.coordinator_published(event, self._clock()))

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Outputs() | Refused():
                    self._front.send(protocol.encode(action))
                case Step(batch):
                    self._stepper.step(batch)
                case Vote():
                    self._cast(action)
                case Report():
                    self._report(action)
                case ReconnectCoordinator():
                    self._connect_coordinator()

    def _cast(self, vote: Vote) -> None:
        frame = protocol.encode(vote)
        for rank in self._core.allreduce.members:
            if rank in self._peers:
                with contextlib.suppress(zmq.Again):
                    self._peers[rank][1].send(frame, zmq.NOBLOCK)

    def _report(self, report: Report) -> None:
        if self._coordinator is not None:
            with contextlib.suppress(zmq.Again):  # it is gone, and its successor gets the report
                self._coordinator.send([report])

    def _send_heartbeat(self, now: float) -> None:
        """Send a heartbeat if one is due, or if the load has changed."""
        core = self._core
        load = core.scheduler.waiting, core.scheduler.running
        if now < self._heartbeat_at + _HEARTBEAT and load == self._reported_load:
            return
        self._heartbeat_at, self._reported_load = now, load
        if await_end(self._parent, 0.0):  # the link may stay open in a fork of the parent's
            self._orphaned()
        since = core.stepping_since
        busy = 0.0 if since is None else now - since
        heartbeat = Heartbeat(*load, core.taken, core.steps, busy, core.imported, core.waits_for())
        with contextlib.suppress(zmq.Again):  # no front end has connected yet
            self._front.send(protocol.encode(heartbeat), zmq.NOBLOCK)
        self._report(Report(self._init.rank, counts=load))

    # -- what it is connected to ----------------------------------------------------------------

    def _bind(self, kind: int, name: str) -> tuple[Any, str]:
        socket: Any = self._context.socket(kind)
        for option in (zmq.LINGER, zmq.SNDHWM, zmq.RCVHWM):
            socket.setsockopt(option, 0)
        path = Path(self._init.folder, name)
        socket.bind(f"ipc://{path}")
        path.chmod(0o600)
        return socket, f"ipc://{path}"

    def _connect(self, by_rank: dict[int, Peer]) -> None:
        for rank, (peer, socket) in list(self._peers.items()):
            if by_rank.get(rank) != peer:
                socket.close()
                del self._peers[rank]
        for rank, peer in by_rank.items():
            if rank != self._init.rank and rank not in self._peers:
                socket = self._context.socket(zmq.PUSH)
                socket.setsockopt(zmq.LINGER, 0)
                socket.connect(peer.votes)
                self._peers[rank] = peer, socket

    def _connect_coordinator(self) -> None:
        """Connect to the coordinator anew, so that it sees this replica arrive."""
        if self._connect_message is None:
            return
        if self._coordinator is not None:
            self._poller.unregister(self._coordinator.fileno())
            self._coordinator.close()
        self._coordinator = EngineLink(
            self._connect_message.addresses, self._init.rank, self._clock
        )
        self._poller.register(self._coordinator.fileno(), zmq.POLLIN)

    # -- the end --------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Shut down cleanly, as far as the workers cooperate."""
        with contextlib.suppress(OSError):
            self._link.send(ReplicaDown(self._ended))
        try:
            self._stepper.shut_down()
        finally:
            self._context.destroy(linger=0)
            if self._coordinator is not None:
                self._coordinator.close()
            ownership.remove_directory(Path(self._init.folder))

    def _orphaned(self) -> None:
        """Kill the workers and exit at once: the parent is gone, and nothing may stay behind."""
        try:
            self._workers.kill(_TO_KILL)
            ownership.remove_directory(Path(self._init.folder))
            ownership.remove_own()
            ownership.remove_stale_names()
        finally:
            os._exit(1)
