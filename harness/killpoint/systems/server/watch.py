"""The watch over a running server: its tree, its health, its metrics, and the clock beside it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from killpoint.history.log import Log
from killpoint.runner.observe import exposure_probe
from killpoint.runner.observe.diagnosis import last_line
from killpoint.systems.server.load.clients import Address, Fetched, Load, fetch
from killpoint.systems.server.load.measures import TextRate, shared, summed
from killpoint.systems.server.processes.lateness import Lateness
from killpoint.systems.server.processes.process_tree import FRONT, ProcessTree
from killpoint.systems.server.processes.supervisor import Supervisor
from killpoint.systems.server.program import ServerProgram

_EACH = 0.1
"""Seconds between two looks at the tree."""
_HEALTH_EACH, _HEALTH_WITHIN = 0.25, 5.0
_NOTED_EACH = 0.02


class ServerWatch:
    """Records what becomes of a server. The coroutines run until they are cancelled."""

    def __init__(
        self,
        program: ServerProgram,
        log: Log,
        tree: ProcessTree,
        load: Load,
        address: Address,
        supervisor: Supervisor,
        output: Path,
    ) -> None:
        self._program, self._log, self._tree, self._load = program, log, tree, load
        self._address, self._supervisor, self._output = address, supervisor, output
        self.pace = TextRate()
        self.parts: dict[str, int] = {}
        """Process ids of the live parts, by name."""
        self.known: set[str] = set()
        """Parts that were ever seen."""
        self.gone = False
        """True once no process is left."""

    async def clock(self, lateness: Lateness) -> None:
        """Record how late plain waits of this process are."""
        while True:
            for late in lateness.found():
                self._log.write("late-tick", ns=late)
            await asyncio.sleep(_NOTED_EACH)

    async def sample(self) -> None:
        """Record the tree's changes, and what streams have got, ten times a second."""
        while True:
            self.look()
            got = {"heard": self._load.heard, "chars": self._load.chars}
            self._log.write("sample", open=len(self._load.open), **got)
            self.pace.note(self._load.chars)
            await asyncio.sleep(_EACH)

    async def health(self) -> None:
        """Record health and readiness, four times a second."""
        while True:
            began = time.monotonic()
            found = await self.fetch_health()
            self._log.write("health", status=found.status, error=found.error, s=since(began))
            if self._program.readiness:
                ready = await fetch(self._address, "GET", self._program.readiness, _HEALTH_WITHIN)
                self._log.write("readiness", status=ready.status, error=ready.error)
            await asyncio.sleep(_HEALTH_EACH)

    async def gauge(self) -> None:
        """Record the open requests by the server's own metrics, four times a second."""
        names = self._program.open_requests
        while names and self._program.metrics:
            began = time.monotonic()
            found = await fetch(self._address, "GET", self._program.metrics, _HEALTH_WITHIN)
            if found.status == 200:
                told: dict[str, object] = {"shares": shared(found.body, self._program.by_replica)}
                told |= {"open": summed(found.body, names), "s": since(began)}
                self._log.write("gauge", **told)
            await asyncio.sleep(_HEALTH_EACH)

    def look(self) -> None:
        """Look at the tree once, and record what has changed."""
        parts, ended = self._tree.look()
        for each in ended:
            self._tell_end(each.part, each.status)
        if parts != self.parts:
            self.parts = parts
            self.known |= set(parts)
            self._log.write("tree", parts=sorted(parts))
        if not parts and not self.gone:
            self.gone = True
            self._log.write("gone")

    def _tell_end(self, part: str, status: int | None) -> None:
        if part == FRONT:
            told = self._supervisor.status_of(self._tree.front)
            status = status if told is None else told
        how: dict[str, object] = {}
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            how = {"signal": -code} if code < 0 else {"code": code}
        kind = "front-ended" if part == FRONT else "part-ended"
        self._log.write(kind, part=part, said=last_line(self._output), **how)

    def look_from_outside(self, temporary: Path) -> None:
        """Record what each live part exposes, and the files that lie in its TMPDIR."""
        for part, pid in sorted(self.parts.items(), key=lambda each: each[0] != FRONT):
            exposure_probe.look(self._log, part, pid, temporary, [pid])
        if not self._supervisor.shared_shm:
            exposure_probe.look_at_shm(self._log, FRONT, self._supervisor.pid)
        exposure_probe.look_at_files(self._log, temporary)

    async def until(
        self, holds: Callable[[], Awaitable[bool]], within: float, each: float = 0.05
    ) -> bool:
        """Wait until `holds` does; return whether it did in time. A server that is gone ends it."""
        end = time.monotonic() + within
        while not await holds():
            if time.monotonic() > end:
                return False
            if self.gone:
                return await holds()
            await asyncio.sleep(each)
        return True

    async def fetch_health(self, within: float = _HEALTH_WITHIN) -> Fetched:
        """Return the answer of the server's health route."""
        return await fetch(self._address, "GET", self._program.health, within)


def since(began: float) -> float:
    """Return the seconds since a reading of the monotonic clock, to the millisecond."""
    return round(time.monotonic() - began, 3)
