"""Actions of a role as the parent of a coordinator, as an engine or as a front end; all are logged.

Events of the parent: ``coordinator-start`` and ``coordinator-started``, ``coordinator-close`` and
``coordinator-closed``, and ``coordinator-gone`` once its child's end was reported; ``times`` has
the intervals that the target promises, ``logged`` the number of bytes that it has written for
people. Events of the others: ``linked`` and ``unlinked``; ``said`` with the message; ``request``
and ``stepped`` with its number ``n``; ``ended`` with the next wave; ``heard`` with the message;
``lied``; ``flood`` and ``flooded``; ``coordinator-lost`` and ``coordinator-found``; ``hear`` and
``hear-done``.
"""

from __future__ import annotations

import os
import pickle
import select
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from killpoint import scenario as script
from killpoint.runner.driver import Driver, NotConnected
from killpoint.runner.environment import remote_clock
from killpoint.runner.observe import scheduling_jitter
from killpoint.runner.points import traceback_line
from killpoint.runner.processes.target_agent import PLAY
from killpoint.runner.protocol import Order
from killpoint.systems.coordinator import main as coordinator_main
from killpoint.systems.coordinator.client_thread import LinkKeeper
from killpoint.systems.coordinator.engine_stub import Stepping
from killpoint.targets.coordinator_protocol import (
    CoordinatorShape,
    EndsWaves,
    ForgesReports,
    RunsCoordinator,
    Saying,
)
from killpoint.targets.protocol import UnsupportedByTarget

if TYPE_CHECKING:
    from killpoint.runner.role import Role

_ROOM = 0.001
"""Seconds to wait while there is no room for a message."""
_ROOM_WITHIN = 5.0
_GONE, _LOOKS = "coordinator.gone", 0.1
"""Name of the file that marks its end, and seconds between two looks for that."""
_BATCH, _HELD_UP = 64, 0.02
"""Messages of a flood at a time, and seconds that these take only if the machine is busy: a delay
of one process that never waits is a delay of another, so this is a control, too."""


class CoordinatorDriver(Driver):
    """The coordinator's half of a role; the parent's ``end`` is its coordinator."""

    def __init__(self, role: Role, folder: Path) -> None:
        self._role = role
        self._folder = folder
        self._keeper: LinkKeeper | None = None
        self._requests = 0
        self._counts: script.Counts = (0, 0)

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """Return the method for each step."""
        return {
            script.CoordinatorStart: self._start,
            script.CoordinatorClose: self._close,
            script.Connect: self._connect,
            script.Disconnect: self._disconnect,
            script.ReportCounts: self._tell,
            script.Request: self._request,
            script.EndWave: self._end_wave,
            script.BreakWave: self._break_wave,
            script.Scale: self._scale,
            script.Forge: self._forge,
            script.Flood: self._flood,
            script.WaitNews: self._hear,
        }

    def come(self) -> None:
        """Have the process that the target will start take the coordinator's part."""
        if self._role.name != "parent":
            return
        os.environ[PLAY] = str(self._folder)
        main = ModuleType("__main__")
        main.__spec__ = ModuleSpec(coordinator_main.__name__, None)
        sys.modules["__main__"] = main
        remote_clock.listen(self._folder, coordinator_main.NAME)

    def _target(self) -> RunsCoordinator:
        target = self._role.target
        if not isinstance(target, RunsCoordinator):
            raise UnsupportedByTarget("no coordinator that runs as a process")
        return target

    # -- the parent -----------------------------------------------------------------------------

    def _start(self, order: Order, step: script.CoordinatorStart) -> str:
        target = self._target()
        self._close_end()
        (self._folder / _GONE).unlink(missing_ok=True)
        shape = msgspec.json.decode(order.data, type=CoordinatorShape)
        times = target.coordinator_times()
        self._log("times", interval=times.interval, idle=times.idle)
        self._log("coordinator-start", engines=shape.engines, timeout=step.timeout)
        began = time.monotonic()
        end = self._role.end = target.coordinator_start(shape, step.timeout)
        self.child = target.coordinator_pid(end)
        took = round(time.monotonic() - began, 6)
        self._log("coordinator-started", outcome="ok", pid=self.child, s=took)
        self._role.handle = pickle.dumps(target.coordinator_handle(end))
        pid = self.child
        scheduling_jitter.watch(self._role.log, lambda: self._is_over(end, pid))
        return "ok"

    def _is_over(self, end: Any, pid: int) -> bool:
        """Return whether the coordinator was closed or has ended; called between two waits."""
        if self._role.end is not end:
            return True
        gone = self._target().coordinator_gone(end)
        if gone:
            complaints = self._folder / f"{self._role.name}.err"
            self._log("coordinator-gone", pid=pid, line=traceback_line.last(complaints))
            (self._folder / _GONE).touch()
        return gone

    def _close(self, _order: Order, _step: script.CoordinatorClose) -> str:
        self._close_end()
        return "ok"

    def _close_end(self) -> None:
        end, self._role.end = self._role.end, None
        if end is None:
            return
        self._log("coordinator-close")
        began = time.monotonic()
        self._target().coordinator_close(end)
        took = round(time.monotonic() - began, 6)
        complaints = self._folder / f"{self._role.name}.err"
        logged = complaints.stat().st_size if complaints.exists() else 0
        self._log("coordinator-closed", outcome="ok", s=took, logged=logged)

    # -- engines and front ends -----------------------------------------------------------------

    def _connect(self, order: Order, _step: script.Connect) -> str:
        self._leave()
        target, handle = self._target(), pickle.loads(order.data)
        if self._role.name.startswith("engine-"):
            stepping = Stepping(order.rank, begins=target.engines_begin)
            make = lambda: target.engine_link(handle, order.rank)  # noqa: E731 # one of two
            self._log("linked", rank=order.rank)
        else:
            stepping, make = None, lambda: target.front_end_link(handle)
            self._log("linked")
        self._keeper = LinkKeeper(target, make, stepping, self._role.log)
        return "ok"

    def _disconnect(self, _order: Order, _step: script.Disconnect) -> str:
        self._leave()
        return "ok"

    def _leave(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()
            self._log("unlinked")

    def _tell(self, _order: Order, step: script.ReportCounts) -> str:
        self._counts = step.counts
        self._kept().do(lambda link: self._say(link, Saying(counts=step.counts)))
        return "ok"

    def _request(self, _order: Order, _step: script.Request) -> str:
        keeper, (stepping, number) = self._kept(), (self._stepping(), self._requests)
        self._requests += 1

        def come(link: Any) -> None:
            self._log("request", n=number, wave=stepping.wave)
            saying = stepping.accept(number)
            if saying is not None:
                self._say(link, saying)
            keeper.tell_stepped()

        keeper.do(come)
        return "ok"

    def _end_wave(self, _order: Order, step: script.EndWave) -> str:
        return self._say_if(lambda: self._stepping().end(says=self._reports_end(step)))

    def _reports_end(self, step: script.EndWave) -> bool:
        """Return whether this engine is the one that reports the end of its wave."""
        stepping, target, first = self._stepping(), self._role.target, step.roles[0]
        if isinstance(target, EndsWaves) and stepping.members is not None:
            return target.engine_reports_end(stepping.rank, stepping.wave, stepping.members)
        is_first = first == self._role.name or (first == "engines" and stepping.rank == 0)
        return is_first and not step.quiet

    def _break_wave(self, _order: Order, step: script.BreakWave) -> str:
        return self._say_if(lambda: self._stepping().broken(step.lost))

    def _say_if(self, what: Callable[[], Saying | None]) -> str:
        def say(link: Any) -> None:
            saying = what()
            self._log("ended", wave=self._stepping().wave)
            if saying is not None:
                self._say(link, saying)

        self._kept().do(say)
        return "ok"

    def _scale(self, _order: Order, step: script.Scale) -> str:
        self._log("scaled", engines=step.engines)
        self._kept().do(lambda link: self._target().front_end_scales(link, step.engines))
        return "ok"

    def _forge(self, _order: Order, step: script.Forge) -> str:
        target = self._role.target
        if not isinstance(target, ForgesReports):
            raise UnsupportedByTarget("its wire cannot be made to lie")

        def lie(link: Any) -> None:
            kept, since = False, time.monotonic_ns()
            if self._keeper is not None and self._keeper.stepping is not None:
                kept = target.engine_forges(link, step.lie, step.counts)
            else:
                target.front_end_forges(link, step.lie)
            counts = step.counts if kept else None
            self._log("lied", lie=step.lie, counts=counts, rank=self._rank(), since=since)

        self._kept().do(lie)
        return "ok"

    def _flood(self, _order: Order, step: script.Flood) -> str:
        target, keeper, lie = self._role.target, self._kept(), step.lie
        if lie is not None and not isinstance(target, ForgesReports):
            raise UnsupportedByTarget("its wire cannot be made to lie")

        def pour(link: Any) -> int:
            now, count = time.monotonic(), 0
            end, before = now + step.seconds, now
            while now < end:
                for _ in range(_BATCH):
                    if lie is not None and isinstance(target, ForgesReports):
                        target.engine_forges(link, lie, self._counts)
                    elif not self._target().engine_says(link, Saying(counts=self._counts)):
                        select.select([], [], [], _ROOM)
                        break
                    count += 1
                keeper.listen(link, 0.0)
                self._target().link_beats(link)  # what makes no sense is no sign of life
                now, before = time.monotonic(), now
                if now - before > _HELD_UP:
                    self._log("late-tick", ns=int((now - before) * 1e9))
            return count

        self._log("flood", seconds=step.seconds, lie=lie, rank=self._rank())
        self._log("flooded", count=keeper.do(pour))
        return "ok"

    def _hear(self, _order: Order, step: script.WaitNews) -> str:
        keeper = self._kept()
        since, began = keeper.words, time.monotonic()
        self._log("hear", what=step.what, rank=step.rank, counts=step.counts)
        end = began + step.within
        there = False
        while not there and (left := end - time.monotonic()) > 0 and not self._moot(step):
            there = keeper.until(lambda: _is_there(keeper, step, since), min(left, _LOOKS))
        took = round(time.monotonic() - began, 6)
        self._log("hear-done", what=step.what, outcome="ok" if there else "timeout", s=took)
        return "ok" if there else "timeout"

    def _moot(self, step: script.WaitNews) -> bool:
        """Return whether no coordinator is left that could publish these counts."""
        return step.what == "counts" and (self._folder / _GONE).exists()

    # -- how --------------------------------------------------------------------------------------

    def _say(self, link: Any, saying: Saying) -> None:
        """Send a message as soon as there is room; log it first, before it can be received."""
        self._log("said", rank=self._rank(), **msgspec.to_builtins(saying))
        end = time.monotonic() + _ROOM_WITHIN
        while not self._target().engine_says(link, saying):
            if time.monotonic() > end:
                self._log("unsaid")
                return
            select.select([], [], [], _ROOM)

    def _kept(self) -> LinkKeeper:
        if self._keeper is None:
            raise NotConnected(f"{self._role.name} is not connected")
        return self._keeper

    def _stepping(self) -> Stepping:
        stepping = self._kept().stepping
        assert stepping is not None  # such steps of front ends are refused
        return stepping

    def _rank(self) -> int | None:
        stepping = self._keeper.stepping if self._keeper else None
        return stepping.rank if stepping else None

    def _log(self, kind: str, **data: object) -> None:
        self._role.log.write(kind, **data)


def _is_there(keeper: LinkKeeper, step: script.WaitNews, since: int) -> bool:
    """Return whether the event that a role waits for has come."""
    stepping, counts = keeper.stepping, keeper.counts
    known = step.rank is not None and step.rank < len(counts)
    mine = counts[step.rank or 0] if known else None
    match step.what:
        case "stepped":
            return stepping is not None and not stepping.waits
        case "without":
            members = stepping.members if stepping is not None and stepping.running else None
            return members is not None and step.rank not in members
        case "running":
            return _runs(keeper) is True
        case "paused":
            return _runs(keeper) is False
        case "counts":
            return known and mine == step.counts
        case "gone":
            return known and mine is None
        case "back":
            return mine is not None
        case "ranks":
            return len(counts) == step.rank
        case "state":
            return keeper.words > since
        case "lost":
            return keeper.lost
        case "found":
            return not keeper.lost


def _runs(keeper: LinkKeeper) -> bool | None:
    """Return whether an engine is in a wave, or a front end was told of one; None: of nothing."""
    if keeper.stepping is not None:
        return keeper.stepping.running
    return keeper.last.running if keeper.last is not None else None


make = CoordinatorDriver
