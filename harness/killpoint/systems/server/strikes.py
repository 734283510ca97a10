"""Faults of a server's play: each is announced, carried out, and told once it was seen to act.

The log gets ``intent``, ``fault`` with the number of open requests, and ``struck``; ``not-reached``
of a fault that had nobody to strike, and ``lacking`` where the server has no such part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from killpoint.history.log import Log
from killpoint.runner.processes.priority import to_thread_ahead
from killpoint.scenario import Fault
from killpoint.systems.server.load.clients import Load
from killpoint.systems.server.machine import SIGNALS, fault_acted
from killpoint.systems.server.processes import exhaustion
from killpoint.systems.server.processes.line_strikes import LineStrikes
from killpoint.systems.server.processes.nodes import Nodes
from killpoint.systems.server.processes.process_tree import FRONT, HELPER, ProcessTree, signalled
from killpoint.systems.server.steps import ServerLine
from killpoint.systems.server.watch import ServerWatch

_SEEN_DEAD_WITHIN = 3.0
_SHM = Path("/dev/shm")
_EXHAUSTIONS = ("starve", "fill-shm", "fill-tmp")
_CABLE = ("cut", "heal")


class Stalled(Exception):
    """The play cannot go on, for a reason that is no fault of the server under test."""


class Strikes:
    """The faults of one play."""

    def __init__(
        self,
        folder: Path,
        log: Log,
        tree: ProcessTree,
        watch: ServerWatch,
        load: Load,
        lines: LineStrikes,
        launcher: int,
    ) -> None:
        """``launcher``: pid of the process whose namespaces the server is in."""
        self._folder, self._log, self._tree = folder, log, tree
        self._watch, self._load, self._lines, self._launcher = watch, load, lines, launcher
        self.unreached: list[str] = []
        """Why a fault had nobody to strike, or was not seen to act; also what the driver adds."""
        self.segments: set[str] = set()
        """Names of the shared-memory segments that the server was seen to map."""
        self.struck: dict[str, int] = {}
        """Pid of each part when it was struck last."""
        self.calling: asyncio.Task[None] | None = None
        """Utility call that the next fault is to interrupt."""
        self.nodes: Nodes | None = None
        """The two nodes whose cable is cut, if there are two."""
        self._asked_to_end: set[str] = set()
        """Parts that were sent a signal which asks them to end."""

    async def strike(self, step: Fault) -> None:
        """Carry out a fault, or tell why there is nobody to strike."""
        pid = self._victim(step)
        if pid is None:
            return
        self.calling = None
        self.struck[step.role] = pid
        if step.fault in ("sigterm", "sigint"):
            self._asked_to_end.add(step.role)
        if step.fault in _EXHAUSTIONS:
            await self._take_away(step, pid)
        elif step.fault in _CABLE:
            await self._pull(step)
        else:
            await self._signal(step, pid)

    def _victim(self, step: Fault) -> int | None:
        """Return the pid of the part to strike; None, and the reason is told, if there is none."""
        self._watch.look()
        pid = self._watch.parts.get(step.role)
        if pid is None and step.fault == "continue":
            return None  # the part was given up meanwhile
        if pid is None:
            if step.role not in self._watch.known:
                self.tell_lacking(step.role)
            elif FRONT in self._asked_to_end:
                gone = f"{step.role} had ended by itself, once the front was asked to"
                self._log.write("lacking", error=f"there is no drain to strike it in: {gone}")
            self.miss(f"{step.role} was gone", target=step.role, gone=True)
            return None
        if self.calling is not None and self.calling.done():
            self.miss("the utility call was answered before the fault", phase="utility")
            return None
        return pid

    def _remember(self) -> None:
        """Keep what the server has now: a fault may take it away."""
        self._watch.pace.parts = {part for part in self._watch.parts if not part.startswith(HELPER)}
        self.segments |= self._tree.segments()

    async def _signal(self, step: Fault, pid: int) -> None:
        self._remember()
        self._log.write("intent", fault=step.fault, target=step.role)
        signalled(pid, SIGNALS[step.fault])
        self._tell(step)

        async def acted() -> bool:
            return fault_acted(step.fault, pid)

        self._note(step, acted=await self._watch.until(acted, _SEEN_DEAD_WITHIN, each=0.01))

    async def strike_at_a_line(
        self, step: ServerLine, call: Callable[[], None], within: float
    ) -> None:
        """Open the gate, and wait until a part is struck at its line.

        Args:
            call: makes the utility call that leads a part there, where the step names one.
        """
        self._watch.look()
        alive = {pid: part for part, pid in self._watch.parts.items()}
        self._remember()
        path = self._lines.open(step)
        if step.first == "sigterm":
            await self.strike(Fault(step.first, FRONT))
        elif step.first:
            call()

        async def acted() -> bool:
            pid = self._lines.struck()
            return pid is not None and fault_acted(step.fault, pid)

        if not await self._watch.until(acted, within, each=0.01):
            self.miss(
                f"no {path.part} came to its line of {path.function}",
                target=path.part,
                where=step.path,
            )
            return
        pid = self._lines.struck() or 0
        part = alive.get(pid, path.part)
        self.struck[part] = pid
        self._lines.tell(step, part, len(self._load.open))

    async def _take_away(self, step: Fault, pid: int) -> None:
        """Exhaust descriptors of the part, or the pages of the play's /dev/shm or TMPDIR."""
        launcher, spare = self._launcher, step.spare
        where = _SHM if step.fault == "fill-shm" else self._folder / "t"
        self._log.write("intent", fault=step.fault, target=step.role)
        if step.fault == "starve":
            acted = exhaustion.starved(pid, spare)
        else:
            await self.exhaust(lambda: exhaustion.fill(launcher, where))
            acted = exhaustion.is_full(launcher, where)
        self._tell(step)
        self._note(step, acted=acted)

    async def _pull(self, step: Fault) -> None:
        """Cut the cable between the nodes, or mend it."""
        assert self.nodes is not None
        cuts = step.fault == "cut"
        self._log.write("intent", fault=step.fault, target=step.role)
        await asyncio.to_thread(self.nodes.cut if cuts else self.nodes.heal)
        carries = (await asyncio.to_thread(self.nodes.look)).carries
        self._tell(step)
        self._note(step, acted=carries is not cuts)

    def _tell(self, step: Fault) -> None:
        self._log.write("fault", fault=step.fault, target=step.role, open=len(self._load.open))

    def _note(self, step: Fault, *, acted: bool) -> None:
        if acted:
            self._log.write("struck", fault=step.fault, target=step.role)
        else:
            self.miss(f"{step.fault} of {step.role} was not seen to act", target=step.role)

    async def exhaust(self, act: Callable[[], None]) -> None:
        """Use up what the machine has of something.

        Raises:
            Stalled: the machine does not let us.
        """
        try:
            await to_thread_ahead(act)
        except exhaustion.Exhausted as error:
            self._log.write("unable", error=str(error))
            raise Stalled(str(error)) from error

    def miss(self, why: str, **told: object) -> None:
        """Record that what the next fault is for has not come about: it strikes nobody."""
        self.unreached.append(why)
        self._log.write("not-reached", **told)

    def tell_lacking(self, part: str) -> None:
        """Record that the server has no such part."""
        had = ", ".join(sorted(self._watch.known))
        self._log.write("lacking", error=f"the tree has no {part}; it has {had}")
