"""The supervisor: starts the parts of an engine, watches them, and starts them again (E3, L1)."""

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

from .. import ownership
from ..base.fds import Fd
from ..clock import Clock, monotonic
from ..coordinator import Coordinator
from ..errors import RefengineError
from ..executor.process import ChildProcess, send_signal
from ..group import new_key
from . import pairing
from .core_process import Birth
from .desk import Desk
from .errors import EngineFailed
from .front_end import Deed, Evict, FrontEnd
from .loopback import free_ports
from .messages import Down, Joined, Meet, Peer, Peers, Ready
from .pairing import Falls, Pairing, Stands, Tell
from .replica import Replica
from .roster import Roster
from .settings import EngineSettings

_log = logging.getLogger(__name__)
COORDINATOR = "coordinator"
_TURN = 1.0  # seconds between two turns without news
_COORDINATOR_STARTS = 15.0
_COORDINATOR_SILENT = 4.0  # seconds without its sign of life, of which there is one a second
_LEAVES = 3.0  # seconds for all replicas to leave by themselves
_TO_END = 20.0
_TURNS_WITHIN = 2.0 + _COORDINATOR_STARTS  # seconds; one that has not turned for longer hangs


class Supervisor:
    """One thread, which alone starts and ends processes; others ask, and wait."""

    def __init__(
        self,
        settings: EngineSettings,
        clock: Clock = monotonic,
        *,
        replica: Callable[[Birth], Replica] = Replica,
        coordinator: Callable[..., Coordinator] = Coordinator,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._new_replica, self._new_coordinator = replica, coordinator
        self._decodes = [f"core-{rank}" for rank in range(settings.data_parallel)]
        self._prefills = [f"prefill-{number}" for number in range(settings.prefill)]
        self._waves = settings.data_parallel > 1
        names = [*self._decodes, *self._prefills, *([COORDINATOR] if self._waves else [])]
        self.roster = Roster(names, restart=settings.restart, start_timeout=settings.start_timeout)
        self._replicas: dict[str, Replica] = {}
        self._coordinator: tuple[Coordinator, ChildProcess] | None = None
        self._meeting: Meet | None = None
        self._pairing = Pairing(self._prefills, self._decodes, self._new_place)
        self._orders: queue.SimpleQueue[Evict] = queue.SimpleQueue()
        self._bell = Fd(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._begun = threading.Event()
        self._failure: EngineFailed | None = None
        self._stopping = False
        self._turned = clock()
        self._desk: Desk
        self._thread = threading.Thread(target=self._run, name="engine supervisor", daemon=True)

    def start(self, desk: Desk) -> None:
        """Start every part; EngineFailed if one does not come to serve."""
        self._desk = desk
        self._thread.start()
        settled = self._begun.wait(self._settings.start_timeout + _COORDINATOR_STARTS)
        if self._failure is not None:
            raise self._failure
        if not settled:
            late = [part.name for part in self.roster.parts.values() if not part.serves]
            raise EngineFailed(", ".join(late), "it did not come to serve in time")

    def evict(self, order: Evict) -> None:
        """A replica is to be ended."""
        self._orders.put(order)
        self._ring()

    def pids(self) -> dict[str, int]:
        """The live processes by name."""
        found: dict[str, int] = {}
        coordinator = self._coordinator
        if coordinator is not None:
            found[COORDINATOR] = coordinator[0].pid
        for replica in list(self._replicas.values()):
            found |= replica.pids()
        return found

    def restarts(self) -> dict[str, int]:
        """How often each part was started again."""
        return {part.name: part.restarts for part in self.roster.parts.values()}

    @property
    def failure(self) -> EngineFailed | None:
        """Why nothing will ever be served again; None: something is, or may yet be."""
        return self._failure

    @property
    def alive(self) -> bool:
        """Whether the thread turns."""
        return self._thread.is_alive() and self._clock() - self._turned < _TURNS_WITHIN

    def close(self) -> None:
        """End every process. Idempotent; returns when they are gone."""
        self._stopping = True
        self._ring()
        if self._thread.ident and threading.current_thread() is not self._thread:
            self._thread.join(_TO_END)

    def _ring(self) -> None:
        os.eventfd_write(self._bell.fileno(), 1)

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except BaseException as error:
            _log.exception("the supervisor has failed")
            self._failure = self._failure or EngineFailed("the supervisor", str(error))
            self._desk.close()
        finally:
            self._begun.set()
            self._end_all()

    def _turn(self) -> None:
        self._turned = now = self._clock()
        for name in self.roster.late(now):
            self._lost(name, f"it did not come to serve in {self._settings.start_timeout:g} s")
        for name in sorted(self.roster.due(now), key=COORDINATOR.__eq__):  # which is waited for
            self._start(name)
        self._look_at_coordinator()
        seconds = max(0.0, min(_TURN, self.roster.next() - self._clock()))
        ready = wait(self._ears(), seconds)
        if self._bell.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._bell.fileno())
        while not self._orders.empty():
            self._obey(self._orders.get())
        for replica in list(self._replicas.values()):
            if replica.link in ready or replica.sentinel in ready:
                self._hear(replica, ended=replica.sentinel in ready)
        if self._coordinator is not None and self._coordinator[0].sentinel in ready:
            self._lost(COORDINATOR, "ended")

    def _ears(self) -> list[Any]:
        ears: list[Any] = [self._bell.fileno()]
        for replica in self._replicas.values():
            ears += [replica.sentinel, *([replica.link] if replica.listens else [])]
        return ears + ([self._coordinator[0].sentinel] if self._coordinator else [])

    def _start(self, name: str) -> None:
        life = self.roster.started(name, self._clock())
        if name == COORDINATOR:
            self._start_coordinator(life)
            return
        folder = ownership.new_directory()
        prefills = name in self._prefills
        rank = 0 if prefills else self._decodes.index(name)
        waves = self._waves and not prefills
        birth = Birth(name, rank, life, self._settings, str(folder), os.getpid(), waves)
        try:
            replica = self._replicas[name] = self._new_replica(birth)
        except OSError as error:
            ownership.remove_directory(folder)
            self._lost(name, str(error))
            return
        except BaseException:
            ownership.remove_directory(folder)
            raise
        self._desk.do(lambda book, _: book.born(name, life, replica.pid))

    def _start_coordinator(self, era: int) -> None:
        try:
            made = self._new_coordinator(self._settings.data_parallel, timeout=_COORDINATOR_STARTS)
        except (RefengineError, OSError) as error:
            self._lost(COORDINATOR, str(error))
            return
        self._coordinator = made, ChildProcess(made.pid)
        self._meeting = Meet(era, made.addresses)
        self.roster.serves(COORDINATOR)
        self._desk.meet(made.addresses)
        for replica in self._cores():
            replica.say(self._meeting)
        self._check_begun()

    def _hear(self, replica: Replica, *, ended: bool) -> None:
        said = replica.hear()
        if self._replicas.get(replica.name) is not replica:
            return  # it was given up a moment ago
        if ended or any(isinstance(message, Down) for message in said):
            self._lost(replica.name, replica.cause())
            return
        for message in said:
            if isinstance(message, Ready):
                self._serves(replica, message)
            elif isinstance(message, Joined):
                self._link(self._pairing.joined(message))
                self._check_begun()

    def _serves(self, replica: Replica, ready: Ready) -> None:
        name = replica.name
        self.roster.serves(name)
        if self._waves and name in self._decodes:
            self._tell_peers()
            if self._meeting is not None:
                replica.say(self._meeting)
        self._desk.do(lambda book, now: book.arrived(name, ready.front, now))
        self._link(self._pairing.serves(name))
        self._check_begun()

    def _check_begun(self) -> None:
        if self._pairing.settled and all(part.serves for part in self.roster.parts.values()):
            self._begun.set()

    def _lost(self, name: str, cause: str) -> None:
        """A part is gone, or of no use: whatever is left of it is ended, and all are told."""
        now = self._clock()
        again = self.roster.ended(name, now)
        if not self._begun.is_set():
            self._failure = EngineFailed(name, cause)
            self._stopping = True
            return
        _log.warning("%s %s; %s", name, cause, "it is started again" if again else "it stays away")
        if not again and (name == COORDINATOR or not self.roster.has_any(self._decodes)):
            self._failure = self._failure or EngineFailed(name, f"it {cause}, and stays away")
        if name == COORDINATOR:
            self._end_coordinator()
            if not again:  # no wave will ever begin
                for core in self._cores():
                    self._lost(core.name, "was ended, since no coordinator will come back")
            return
        self._desk.do(lambda book, now: book.left(name, cause, again, now))
        replica = self._replicas.pop(name, None)
        if name in self._decodes:
            self._tell_peers()
        self._link(self._pairing.left(name))
        if replica is not None:
            replica.end()

    def _obey(self, order: Evict) -> None:
        replica = self._replicas.get(order.name)
        if replica is not None and replica.life == order.life:
            self._lost(order.name, f"was ended, since {order.cause}")

    def _look_at_coordinator(self) -> None:
        """One that is stopped keeps all replicas from stepping."""
        if self._coordinator is not None and self._desk.quiet() > _COORDINATOR_SILENT:
            self._lost(COORDINATOR, "gave no sign of life")

    def _cores(self) -> list[Replica]:
        """The data-parallel replicas that serve."""
        serving = self.roster.serving()
        return [self._replicas[name] for name in self._decodes if name in serving]

    def _tell_peers(self) -> None:
        if self._waves:
            cores = {self._decodes.index(core.name): core for core in self._cores()}
            peers = {rank: Peer(core.life, core.votes) for rank, core in cores.items()}
            for core in cores.values():
                core.say(Peers(peers))

    def _link(self, deeds: list[pairing.Deed]) -> None:
        for deed in deeds:
            match deed:
                case Tell(name, message):
                    self._replicas[name].say(message)
                case Stands(link, prefill, decode):
                    self._desk.do(partial(_linked, link, prefill, decode))
                case Falls(link):
                    self._desk.do(partial(_unlinked, link))

    def _new_place(self) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
        ranks = self._settings.tensor_parallel
        return free_ports(ranks), tuple(new_key() for _ in range(ranks))

    def _end_coordinator(self) -> None:
        coordinator, self._coordinator, self._meeting = self._coordinator, None, None
        if coordinator is not None:
            self._desk.meet(None)
            made, process = coordinator
            send_signal(process, signal.SIGKILL)  # stopped, it would not go by itself
            made.close()
            process.close()

    def _end_all(self) -> None:
        """Every replica at once, and the coordinator."""
        replicas = list(self._replicas.values())
        for replica in replicas:
            replica.leave()
        end = self._clock() + _LEAVES
        for replica in replicas:
            with contextlib.suppress(Exception):
                replica.end(max(0.0, end - self._clock()))
        with contextlib.suppress(Exception):
            self._end_coordinator()


def _linked(link: str, prefill: str, decode: str, book: FrontEnd, _: float) -> list[Deed]:
    return book.linked(link, prefill, decode)


def _unlinked(link: str, book: FrontEnd, _: float) -> list[Deed]:
    return book.unlinked(link)
