"""The player of whole servers: starts one, runs its clients, strikes it, and ends what is left."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from killpoint import ledger as books
from killpoint.errors import BadUsage
from killpoint.history.record import History
from killpoint.runner.observe import accelerators
from killpoint.runner.processes.priority import ahead
from killpoint.scenario import Scenario
from killpoint.systems.base import PlayRemains
from killpoint.systems.server.driver import Driver
from killpoint.systems.server.processes import exhaustion
from killpoint.systems.server.processes.supervisor import (
    EngineZygote,
    ForkedProcess,
    LauncherLink,
    OwnProcess,
    Supervisor,
)
from killpoint.systems.server.program import TWO_NODES, ServerProgram, Topology
from killpoint.systems.server.steps import (
    ServerLine,
    ServerStart,
    ServerWaitRestarted,
    calls_of,
    is_utility,
)
from killpoint.systems.server.strikes import Stalled
from killpoint.systems.server.system import SYSTEM
from killpoint.systems.server.target import HasServer
from killpoint.targets.registry import build

_DEVICE_FREED_WITHIN = 10.0
"""Seconds within which a driver frees the device memory of processes that have ended."""


class ServerPlayer:
    """Player of servers (:class:`killpoint.systems.base.Player`); keeps the zygote, if any."""

    def __init__(self, spec: str, root: Path) -> None:
        target = build(spec)
        if not isinstance(target, HasServer):
            raise BadUsage(f"target {spec}: it cannot be started as a server")
        self._program: ServerProgram = target.server_program()
        self._root = root
        self._zygote: EngineZygote | None = None
        self._starts: dict[tuple[Topology, bool], float] = {}
        """Seconds that an undisturbed start took, by topology, and by whether it was forked."""
        self._running = Running()
        self._kept = root / "kept"

    def declines(self, scenario: Scenario) -> str:
        """See :class:`killpoint.systems.base.Player`."""
        assert scenario.server is not None
        program, topology = self._program, scenario.server.topology
        if not program.plays_in(topology):
            return f"the target has no {topology} topology"
        if not program.survives and any(isinstance(s, ServerWaitRestarted) for s in scenario.steps):
            return "the target does not promise to start a part again"
        if program.utility is None and any(map(is_utility, scenario.steps)):
            return "the target names no utility call"
        for name in sorted(set(calls_of(scenario.steps)) - program.calls.keys()):
            return f"the target names no call {name!r}"
        paths = {step.path for step in scenario.steps if isinstance(step, ServerLine)}
        for path in sorted(paths - program.lines.keys()):
            return f"the target names no path {path!r} of its code"
        reasons = [program.unjudged.get(id, "") for id in scenario.judges]
        return reasons[0] if reasons and all(reasons) else ""

    def play(self, scenario: Scenario, folder: Path, *, ordinary: bool) -> PlayRemains:
        """Start a server, run its clients, carry out the steps, and end what is left."""
        assert scenario.server is not None
        as_users = ordinary or SYSTEM.as_users(scenario)
        as_users = as_users or scenario.server.topology == TWO_NODES  # one fork is on one node
        forked = self._program.zygote is not None and not as_users
        takes = 0.0
        if any(isinstance(step, ServerStart) and step.until == "late" for step in scenario.steps):
            takes = self._start_takes(scenario, folder / "rehearsal", forked=forked)
        on_gpu = accelerators.used() if accelerators.present() else {}
        # Clients are other machines as a rule: a server that spins does not keep them waiting.
        with ahead(children=False), Supervisor(self._line(forked)) as supervisor:
            self._give_kept(folder / "own")
            driver = Driver(self._program, scenario, folder, supervisor)
            driver.start_takes = takes
            played = _played(driver, self._running, folder, supervisor)
            if driver.took:
                self._keep(folder / "own")
        if on_gpu:  # every process has been ended by now: what is still in use stays so
            played.ledger.gpu_bytes = accelerators.kept(on_gpu, _DEVICE_FREED_WITHIN)
        played.provisional = forked
        return played

    def abandon(self) -> None:
        """See :class:`killpoint.systems.base.Player`."""
        self._running.abandon()

    def close(self) -> None:
        """End the zygote."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def _give_kept(self, own: Path) -> None:
        own.mkdir(exist_ok=True, mode=0o700)
        for name in self._program.keeps:
            if (self._kept / name).is_dir():
                shutil.copytree(self._kept / name, own / name)

    def _keep(self, own: Path) -> None:
        """Keep what a server that was ready has found out, for later plays."""
        for name in self._program.keeps:
            if (own / name).is_dir() and not (self._kept / name).exists():
                shutil.copytree(own / name, self._kept / name)

    def _start_takes(self, scenario: Scenario, folder: Path, *, forked: bool) -> float:
        """Return the seconds of an undisturbed start; 0: it did not become ready."""
        assert scenario.server is not None
        kind = scenario.server.topology, forked
        if kind not in self._starts:
            (folder / "t").mkdir(parents=True, mode=0o700)
            rehearsal = msgspec.structs.replace(scenario, steps=[ServerStart()])
            with Supervisor(self._line(forked)) as supervisor:
                driver = Driver(self._program, rehearsal, folder, supervisor)
                try:
                    self._running.run(driver.play())
                except Stalled:
                    return 0.0  # so does the play, and says why
                finally:
                    driver.log.close()
            self._starts[kind] = driver.took
        return self._starts[kind]

    def _line(self, forked: bool) -> LauncherLink:
        return ForkedProcess(self._ready()) if forked else OwnProcess()

    def _ready(self) -> EngineZygote:
        if self._zygote is None:
            assert self._program.zygote is not None
            self._zygote = EngineZygote(self._program.zygote, self._root)
        return self._zygote


class Running:
    """The play that is under way, which another thread may abandon."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._task: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._abandoned = False

    def run(self, play: Coroutine[Any, Any, None]) -> None:
        """Run a play to its end.

        Raises:
            asyncio.CancelledError: it was abandoned, before or meanwhile.
        """
        asyncio.run(self._watched(play))

    def abandon(self) -> None:
        """Cancel the play under way, and every later one at once."""
        with self._lock:
            self._abandoned = True
            if self._task is not None:
                loop, task = self._task
                loop.call_soon_threadsafe(task.cancel)

    async def _watched(self, play: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(play)
        with self._lock:
            if self._abandoned:
                task.cancel()
            self._task = asyncio.get_running_loop(), task
        try:
            await task
        finally:
            with self._lock:
                self._task = None


def _played(driver: Driver, running: Running, folder: Path, supervisor: Supervisor) -> PlayRemains:
    stalled = ""
    try:
        running.run(driver.play())
    except Stalled as error:
        stalled = str(error)
    finally:
        driver.log.close()
    temporary = folder / "t"
    names = driver.strikes.segments
    if not supervisor.shared_shm:
        names = {path.name for path in supervisor.shm.iterdir()} - {exhaustion.BALLAST}
    left = books.look(names, temporary, driver.tree.pids(), supervisor.shm)
    left.all_killed = _all_killed(History.read(folder))
    if supervisor.shared_shm:  # the launcher ends processes, and its own mounts end with it
        books.remove(msgspec.structs.replace(left, processes=[]), temporary)
    return PlayRemains(left, stalled, driver.strikes.unreached)


def _all_killed(history: History) -> bool:
    """Return whether every part that ever lived died of SIGKILL."""
    ends = list(history.of("front-ended", "part-ended"))
    return bool(ends) and all(event.number("signal", 0) == 9 for event in ends)
