"""The supervisor: starts an engine's processes, watches them, and restarts them (E3, L1)."""

import contextlib
import logging
import os
import queue
import signal
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from ...base import ownership
from ...base.cleanup import ServingThread
from ...base.clock import Clock, monotonic
from ...base.fds import Fd
from ...coordinator import Coordinator
from ...errors import RefengineError
from ...executor.process import ChildProcess, send_signal
from ...group import new_key
from ..core.process import CoreInit
from ..errors import EngineFailed
from ..front_end.request_tracker import Action, DropReplica, RequestTracker
from ..front_end.thread import FrontEndThread
from ..loopback import free_ports
from ..protocol import ConnectCoordinator, KvLinkResult, Peer, Peers, Ready, ReplicaDown
from ..settings import EngineSettings
from . import kv_links
from .kv_links import KvLinkTable, LinkDown, LinkUp, Notify
from .replica import Replica
from .restart_policy import RestartPolicy

_log = logging.getLogger(__name__)
COORDINATOR = "coordinator"
_TURN = 1.0  # seconds between two turns without an event
_COORDINATOR_STARTS = 15.0
_COORDINATOR_SILENT = 4.0  # seconds without its heartbeat, of which there is one a second
_LEAVES = 3.0  # seconds for all replicas to exit by themselves
_TO_END = 20.0
_TURNS_WITHIN = 2.0 + _COORDINATOR_STARTS  # seconds; one that has not turned for longer hangs


class Supervisor:
    """One thread that alone starts and ends processes; other threads ask it, and wait."""

    def __init__(
        self,
        settings: EngineSettings,
        clock: Clock = monotonic,
        *,
        replica: Callable[[CoreInit], Replica] = Replica,
        coordinator: Callable[..., Coordinator] = Coordinator,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._new_replica, self._new_coordinator = replica, coordinator
        self._decodes = [f"core-{rank}" for rank in range(settings.data_parallel)]
        self._prefills = [f"prefill-{number}" for number in range(settings.prefill)]
        self._waves = settings.data_parallel > 1
        names = [*self._decodes, *self._prefills, *([COORDINATOR] if self._waves else [])]
        self.restart_policy = RestartPolicy(
            names, restart=settings.restarts, start_timeout=settings.start_timeout
        )
        self._replicas: dict[str, Replica] = {}
        self._coordinator: tuple[Coordinator, ChildProcess] | None = None
        self._connect_message: ConnectCoordinator | None = None
        self._kv_links = KvLinkTable(self._prefills, self._decodes, self._new_link_endpoint)
        self._drop_requests: queue.SimpleQueue[DropReplica] = queue.SimpleQueue()
        self._wakeup = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._begun = threading.Event()
        self._failure: EngineFailed | None = None
        self._stopping = False
        self._turned = clock()
        self._front_end: FrontEndThread
        self._thread = ServingThread(self._run, name="engine supervisor")

    def start(self, front_end: FrontEndThread) -> None:
        """Start every part; raise EngineFailed if one does not come to serve."""
        self._front_end = front_end
        self._thread.start()
        settled = self._begun.wait(self._settings.start_timeout + _COORDINATOR_STARTS)
        if self._failure is not None:
            raise self._failure
        if not settled:
            late = [part.name for part in self.restart_policy.parts.values() if not part.serves]
            raise EngineFailed(", ".join(late), "it did not come to serve in time")

    def drop_replica(self, request: DropReplica) -> None:
        """Ask the thread to end a replica."""
        self._drop_requests.put(request)
        self._wake()

    def pids(self) -> dict[str, int]:
        """Return the live processes' ids by name."""
        found: dict[str, int] = {}
        coordinator = self._coordinator
        if coordinator is not None:
            found[COORDINATOR] = coordinator[0].pid
        for replica in list(self._replicas.values()):
            found |= replica.pids()
        return found

    def restarts(self) -> dict[str, int]:
        """Return the number of restarts of each part."""
        return {part.name: part.restarts for part in self.restart_policy.parts.values()}

    @property
    def failure(self) -> EngineFailed | None:
        """Reason why nothing will be served again; None while something is, or may be."""
        return self._failure

    @property
    def alive(self) -> bool:
        """True if the thread turns."""
        return self._thread.is_alive() and self._clock() - self._turned < _TURNS_WITHIN

    def close(self) -> None:
        """End every process; returns when they are gone. Idempotent."""
        self._stopping = True
        self._wake()
        if not self._thread.prevent() and threading.current_thread() is not self._thread:
            self._thread.join(_TO_END)

    def _wake(self) -> None:
        os.eventfd_write(self._wakeup.fileno(), 1)

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except BaseException as error:
            _log.exception("the supervisor has failed")
            self._failure = self._failure or EngineFailed("the supervisor", str(error))
            self._front_end.close()
        finally:
            self._begun.set()
            self._end_all()

    def _turn(self) -> None:
        self._turned = now = self._clock()
        for name in self.restart_policy.late(now):
            self._lost(name, f"it did not come to serve in {self._settings.start_timeout:g} s")
        for name in sorted(
            self.restart_policy.due(now), key=COORDINATOR.__eq__
        ):  # last: it is waited for
            self._start(name)
        self._check_coordinator()
        seconds = max(0.0, min(_TURN, self.restart_policy.next() - self._clock()))
        ready = wait(self._waitables(), seconds)
        if self._wakeup.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wakeup.fileno())
        while not self._drop_requests.empty():
            self._drop(self._drop_requests.get())
        for replica in list(self._replicas.values()):
            if replica.link in ready or replica.sentinel in ready:
                self._hear(replica, ended=replica.sentinel in ready)
        if self._coordinator is not None and self._coordinator[0].sentinel in ready:
            self._lost(COORDINATOR, "ended")

    def _waitables(self) -> list[Any]:
        waitables: list[Any] = [self._wakeup.fileno()]
        for replica in self._replicas.values():
            waitables += [replica.sentinel, *([replica.link] if replica.listens else [])]
        return waitables + ([self._coordinator[0].sentinel] if self._coordinator else [])

    def _start(self, name: str) -> None:
        life = self.restart_policy.started(name, self._clock())
        if name == COORDINATOR:
            self._start_coordinator(life)
            return
        folder = ownership.new_directory()
        prefills = name in self._prefills
        rank = 0 if prefills else self._decodes.index(name)
        waves = self._waves and not prefills
        init = CoreInit(name, rank, life, self._settings, str(folder), waves)
        try:
            replica = self._replicas[name] = self._new_replica(init)
        except (RefengineError, OSError) as error:
            ownership.remove_directory(folder)
            self._lost(name, str(error))
            return
        except BaseException:
            ownership.remove_directory(folder)
            raise
        self._front_end.do(lambda tracker, _: tracker.started(name, life, replica.pid))

    def _start_coordinator(self, era: int) -> None:
        try:
            made = self._new_coordinator(self._settings.data_parallel, timeout=_COORDINATOR_STARTS)
        except (RefengineError, OSError) as error:
            self._lost(COORDINATOR, str(error))
            return
        self._coordinator = made, ChildProcess(made.pid)
        self._connect_message = ConnectCoordinator(era, made.addresses)
        self.restart_policy.serves(COORDINATOR)
        self._front_end.connect_coordinator(made.addresses)
        for replica in self._cores():
            replica.say(self._connect_message)
        self._check_begun()

    def _hear(self, replica: Replica, *, ended: bool) -> None:
        said = replica.hear()
        if self._replicas.get(replica.name) is not replica:
            return  # given up a moment ago
        if ended or any(isinstance(message, ReplicaDown) for message in said):
            self._lost(replica.name, replica.cause())
            return
        for message in said:
            if isinstance(message, Ready):
                self._serves(replica, message)
            elif isinstance(message, KvLinkResult):
                self._update_links(self._kv_links.joined(message))
                self._check_begun()

    def _serves(self, replica: Replica, ready: Ready) -> None:
        name = replica.name
        self.restart_policy.serves(name)
        if self._waves and name in self._decodes:
            self._tell_peers()
            if self._connect_message is not None:
                replica.say(self._connect_message)
        self._front_end.do(lambda tracker, now: tracker.arrived(name, ready.front, now))
        self._update_links(self._kv_links.serves(name))
        self._check_begun()

    def _check_begun(self) -> None:
        if self._kv_links.settled and all(
            part.serves for part in self.restart_policy.parts.values()
        ):
            self._begun.set()

    def _lost(self, name: str, cause: str) -> None:
        """Handle a part that is gone or useless: end the rest of it, and inform all others."""
        now = self._clock()
        again = self.restart_policy.ended(name, now)
        if not self._begun.is_set():
            self._failure = EngineFailed(name, cause)
            self._stopping = True
            return
        _log.warning("%s %s; %s", name, cause, "it is started again" if again else "it stays away")
        if not again and (name == COORDINATOR or not self.restart_policy.has_any(self._decodes)):
            self._failure = self._failure or EngineFailed(name, f"it {cause}, and stays away")
        if name == COORDINATOR:
            self._end_coordinator()
            if not again:  # no wave will ever begin
                for core in self._cores():
                    self._lost(core.name, "was ended, since no coordinator will come back")
            return
        self._front_end.do(lambda tracker, now: tracker.left(name, cause, again, now))
        replica = self._replicas.pop(name, None)
        if name in self._decodes:
            self._tell_peers()
        self._update_links(self._kv_links.left(name))
        if replica is not None:
            replica.end()

    def _drop(self, request: DropReplica) -> None:
        replica = self._replicas.get(request.name)
        if replica is not None and replica.life == request.life:
            self._lost(request.name, f"was ended, since {request.cause}")

    def _check_coordinator(self) -> None:
        """Drop a silent coordinator: a stopped one keeps all replicas from stepping."""
        if (
            self._coordinator is not None
            and self._front_end.coordinator_silent_for() > _COORDINATOR_SILENT
        ):
            self._lost(COORDINATOR, "gave no sign of life")

    def _cores(self) -> list[Replica]:
        """Return the data-parallel replicas that serve."""
        serving = self.restart_policy.serving()
        return [self._replicas[name] for name in self._decodes if name in serving]

    def _tell_peers(self) -> None:
        if self._waves:
            cores = {self._decodes.index(core.name): core for core in self._cores()}
            peers = {rank: Peer(core.life, core.votes) for rank, core in cores.items()}
            for core in cores.values():
                core.say(Peers(peers))

    def _update_links(self, actions: list[kv_links.Action]) -> None:
        for action in actions:
            match action:
                case Notify(name, message):
                    self._replicas[name].say(message)
                case LinkUp(link, prefill, decode):
                    self._front_end.do(partial(_linked, link, prefill, decode))
                case LinkDown(link):
                    self._front_end.do(partial(_unlinked, link))

    def _new_link_endpoint(self) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        ranks = self._settings.tensor_parallel
        return free_ports(ranks), tuple(new_key() for _ in range(ranks))

    def _end_coordinator(self) -> None:
        coordinator, self._coordinator, self._connect_message = self._coordinator, None, None
        if coordinator is not None:
            self._front_end.connect_coordinator(None)
            made, process = coordinator
            send_signal(process, signal.SIGKILL)  # a stopped one would not exit by itself
            made.close()
            process.close()

    def _end_all(self) -> None:
        """End every replica at once, then the coordinator."""
        replicas = list(self._replicas.values())
        for replica in replicas:
            replica.leave()
        end = self._clock() + _LEAVES
        for replica in replicas:
            with contextlib.suppress(Exception):
                replica.end(max(0.0, end - self._clock()))
        with contextlib.suppress(Exception):
            self._end_coordinator()


def _linked(
    link: str, prefill: str, decode: str, tracker: RequestTracker, _: float
) -> list[Action]:
    return tracker.linked(link, prefill, decode)


def _unlinked(link: str, tracker: RequestTracker, _: float) -> list[Action]:
    return tracker.unlinked(link)
