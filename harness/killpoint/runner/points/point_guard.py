"""The role's half of a rendezvous: count the lines of an operation, stop at the point, wait."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from types import CodeType
from typing import Any, cast

from killpoint.history.log import Log
from killpoint.points.lines import lines
from killpoint.points.opcodes import opcodes
from killpoint.points.refusal import Refused
from killpoint.points.stores import Stores
from killpoint.points.with_exits import leaves_with
from killpoint.runner.environment import clock
from killpoint.runner.environment.coverage_hooks import save_coverage
from killpoint.runner.points.interruption import InjectedError, Interrupter
from killpoint.runner.points.page_guard import at_pages
from killpoint.runner.points.store_guard import at_stores
from killpoint.runner.points.time_guard import TimeGuard
from killpoint.runner.processes.target_agent import EXIT_FAULT
from killpoint.runner.protocol import Arm, Channel, Packet, Reached, Release
from killpoint.targets.protocol import HasPoints, HasSlots, Target


class PointGuard:
    """Watch over the operations of one role for the points it was armed with."""

    def __init__(self, target: Target, channel: Channel, log: Log) -> None:
        self._target = target
        self.channel = channel
        self.log = log
        self._armed: list[Arm] = []
        self._timed: dict[str, TimeGuard] = {}
        self._seen: dict[int, int] = {}
        self._interrupter: Interrupter | None = None
        if isinstance(target, HasPoints):
            self._interrupter = Interrupter(target.is_own_code, log)
        self.stores = Stores()
        self.waiting: list[Packet] = []
        """Packets from the runner that arrived while this role stood at a point."""

    def accept_interrupts(self) -> None:
        """Let SIGUSR1 raise inside the target's code; from the main thread."""
        main = threading.current_thread() is threading.main_thread()
        if self._interrupter is not None and main:
            self._interrupter.install()

    def arm(self, order: Arm) -> None:
        """Arm one more point."""
        if (order.point.kind() or order.of) != "times":
            self._armed.append(order)
            return
        try:
            self._timed[order.point.op] = TimeGuard(order, self.log)
        except Refused as refused:
            self.log.write("unable", error=str(refused))

    @contextlib.contextmanager
    def during(self, verb: str, end: Any) -> Generator[None]:
        """Run one operation under watch, if a point is armed for it."""
        if verb in self._timed:
            with self._timed[verb].during():
                yield
            return
        arm = self._due(verb)
        kind = (arm.point.kind() or arm.of) if arm is not None else "lines"
        if arm is not None and kind != "lines":
            stores = at_stores(self, self.stores, arm, verb)
            with at_pages(self, arm) if kind == "pages" else stores:
                yield
            return
        if arm is None or not isinstance(self._target, HasPoints):
            yield
            return
        watch = _Watch(self, arm, self._target, end)
        try:
            watched = opcodes if arm.point.depth == "opcode" else lines
            with watched(self._target.is_own_code, watch.on_line):
                yield
        finally:
            if not watch.reached:
                self.log.write("lines", op=verb, arm=arm.id, count=watch.count)

    def _due(self, verb: str) -> Arm | None:
        for arm in self._armed:
            if arm.point.op != verb:
                continue
            nth = self._seen.get(arm.id, 0)
            self._seen[arm.id] = nth + 1
            if nth == arm.point.nth:
                self._armed.remove(arm)
                return arm
        return None

    def meet(self, arm: Arm, where: str) -> None:
        """Stand at the point until the runner has acted."""
        self.log.write("at-point", arm=arm.id, where=where)
        save_coverage()
        self.channel.put(Reached(arm.id, where))
        if arm.stop:
            os.kill(os.getpid(), signal.SIGSTOP)
        packet = self.await_release()
        if packet.action == "raise":
            self.log.write("raised", how="injected", where=where)
            raise InjectedError(f"injected at {where}")
        if packet.action == "interrupt" and self._interrupter is not None:
            self._interrupter.strike()
        if packet.action == "exit":
            os._exit(EXIT_FAULT)
        if packet.action.startswith("jump "):
            moved = clock.jump(float(packet.action.removeprefix("jump ")) * 3600)
            self.log.write("jumped", s=round(moved, 3), where=where)

    def await_release(self) -> Release:
        """Wait for the runner's release, and return it."""
        packet = self.channel.get()
        while not isinstance(packet, Release):
            self.waiting.append(packet)  # an order given meanwhile is for afterwards
            packet = self.channel.get()
        return packet


class _Watch:
    def __init__(self, guard: PointGuard, arm: Arm, target: Target, end: Any) -> None:
        self._guard = guard
        self._arm = arm
        self._slots = cast("HasSlots", target) if isinstance(target, HasSlots) else None
        self._end = end
        self.count = 0
        self.reached = False
        self._due = False
        """True if its exception waits for the end of a ``with`` block."""
        self._cleared = False
        named = arm.point.name is not None
        self._slot = self._slots.position(end) if named and self._slots and end is not None else 0

    def on_line(self, code: CodeType, line: int, offset: int) -> None:
        """Count a line, or instruction, of the target's code, and meet the runner at the point."""
        at = self.count
        self.count += 1
        point = self._arm.point
        if self.reached:
            return
        here = self._due or (at == point.line if point.name is None else self._marker_published())
        self._due = here and self._arm.throws and leaves_with(code, offset)
        if here and not self._due:
            self.reached = True
            file = Path(code.co_filename).name
            self._guard.meet(self._arm, f"{file}:{line} in {code.co_name}")

    def _marker_published(self) -> bool:
        """Return whether this operation has published its slot with an overflow marker."""
        if self._slots is None or self._end is None:
            return False
        written = self._slots.flags(self._end, self._slot)[0]
        self._cleared = self._cleared or not written
        return self._cleared and bool(written) and self._slots.overflowed(self._end, self._slot)
