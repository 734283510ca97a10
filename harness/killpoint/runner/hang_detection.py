"""Waits of the runner, each with a deadline, during which it serves all roles; the rule for a hang.

A role hangs if its current operation did not end within the step's time, and

- the operation has lasted for two seconds beyond its own deadline, if it has one (or for the step's
  time, if that is less);
- for as long as that the role's record has not grown;
- the time for which the machine kept it from running has been granted on top, twice.

An operation of the harness's own that does not end says nothing of the target: the play stalls.
It stalls also if a process has ended and the zygote has not reported it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from killpoint import scenario as script
from killpoint.faults import FAULTS
from killpoint.history.log import Log
from killpoint.runner.observe import diagnosis
from killpoint.runner.observe.processor_time import Attendance, ProcessorTime
from killpoint.runner.role_process import RoleProcess
from killpoint.runner.target_processes import TargetProcesses
from killpoint.scenario import Scenario

TICK = 0.02
"""Seconds of the control wait: the excess over this of a plain wait is what time verdicts allow."""
_CARRIES_WITHIN = 1.0
"""Seconds for a thread of the target's to reach a stop, after which it is no longer awaited."""
_SETTLED = 0.12
"""Seconds, of its own, for which a role has been inside one operation."""
_STUCK = 2.0
"""Seconds without an end of its operation, or a line in its record, from which on a role hangs."""
_STUCK_AT_EXIT = 8.0
"""The same for an interpreter that ends: it tears down its modules first, torch among them."""
_MOST = 6.0
"""Longest extended wait, in multiples of its own length, beside ``_STUCK``."""
_REAPED_WITHIN = 30.0
"""Seconds for the zygote to report an end that the kernel shows."""
_ENDED = ("Z", "X", "")
_OURS = (script.VerifyHeld, script.ProbeExposure, script.MeasureMemory, script.Fault)
"""Steps that run no code of the target's, except to inspect its objects."""


class Stalled(Exception):
    """The harness's own part of a play did not go on: the play says nothing of the target."""


class HangDetector:
    """The waits of one play."""

    def __init__(
        self,
        scenario: Scenario,
        log: Log,
        actors: dict[str, RoleProcess],
        target_processes: TargetProcesses,
        serve: Callable[[float], None],
        processor: ProcessorTime,
        folder: Path,
    ) -> None:
        """``serve``: handles packets for at most so many seconds; ``folder``: the record's."""
        self._processor = processor
        self._folder = folder
        self._scenario = scenario
        self._log = log
        self._actors = actors
        self._target_processes = target_processes
        self._serve = serve

    def until(
        self, done: Callable[[], bool], within: float, complaint: str | None, *, paced: bool = False
    ) -> bool:
        """Serve all roles until ``done``; on expiry raise, or return False for None and ''.

        Raises:
            Stalled: it did not come to that in time, and there is a complaint.
        """
        end = time.monotonic() + within
        while not done():
            if time.monotonic() >= end:
                if complaint:
                    raise Stalled(f"{complaint} within {within:g} s")
                return False
            if paced:
                stop = time.monotonic() + TICK
                while (left := stop - time.monotonic()) > 0:
                    self._serve(left)
            else:
                self._serve(TICK)
        return True

    def wait(self, step: script.Wait) -> None:
        """Wait until roles have done all their orders; one that has not in time hangs.

        Raises:
            Stalled: an operation of the harness's own did not end.
        """
        names = self._scenario.named(step.roles)
        waited = [self._actors[name] for name in names if name in self._actors]

        def late() -> list[RoleProcess]:
            return [a for a in waited if a.alive and a.outstanding and not a.held_up]

        began = time.monotonic()
        patience = {actor.name: _Patience(self, actor, step.within) for actor in waited}
        most = began + _MOST * step.within + _STUCK
        if self.until(lambda: not late(), step.within, None):
            return
        while (actors := late()) and time.monotonic() < most:
            more = max(patience[actor.name].left() for actor in actors)
            if more <= 0:
                break
            self.until(lambda: not late(), min(more, most - time.monotonic()), None)
        for actor in waited:
            if actor not in late():
                continue  # it came back while another one was looked at
            order = (
                actor.begun if actor.begun in actor.outstanding else next(iter(actor.outstanding))
            )
            doing = actor.outstanding[order]
            if isinstance(doing, _OURS):
                what = f"the harness's own {doing.__struct_config__.tag}"
                raise Stalled(f"{actor.name} did not come back from {what}")
            self.hang(actor, str(doing.__struct_config__.tag), order)

    def hang(self, actor: RoleProcess, doing: str, order: int = -1) -> None:
        """Record the stacks of a hung role and its workers, then kill it.

        ``order``: the order that it does not return from, if there is one.

        Raises:
            Stalled: it has ended, and the zygote has not reported it.
        """
        if diagnosis.state(actor.pid) in _ENDED:
            self.until(
                lambda: not actor.alive, _REAPED_WITHIN, f"no word came of {actor.name}'s end"
            )
            return
        seen = diagnosis.seen(actor.pid)
        self._serve(0.0)
        if not actor.alive or (order >= 0 and order not in actor.outstanding):
            return  # it came back while it was looked at
        self._log.write("hang", target=actor.name, op=doing, **seen)
        self._target_processes.dump("seen", beside=actor.name)
        look_at_maps(self._log, actor)
        self._log.write("intent", fault="kill", target=actor.name, teardown=True)
        FAULTS["kill"].act(actor)
        self.until(lambda: not actor.alive, _REAPED_WITHIN, f"{actor.name} did not die")

    def allowed(self, names: Iterable[str], since: dict[str, float]) -> float:
        """Return the seconds that the machine owes these roles: twice the worst one's delay."""
        owed = (self._processor.denied(name) - since.get(name, 0.0) for name in names)
        return 2 * max(owed, default=0.0)

    def denied(self) -> dict[str, float]:
        """Return the seconds for which each role has been kept from running so far."""
        return {name: self._processor.denied(name) for name in self._actors}

    def quiet_for(self, name: str) -> float:
        """Return the seconds since a role's record has grown, by the kernel's clock."""
        try:
            return max(0.0, time.time() - (self._folder / f"{name}.jsonl").stat().st_mtime)
        except OSError:
            return math.inf

    def granted(self, done: Callable[[], bool], within: float, names: Iterable[str]) -> bool:
        """Return whether ``done`` in time, plus the time that the machine took from these roles."""
        names = list(names)
        since, began = self.denied(), time.monotonic()
        if self.until(done, within, None):
            return True
        while (more := began + within + self.allowed(names, since) - time.monotonic()) > 0:
            if time.monotonic() > began + _MOST * within:
                break
            if self.until(done, more, None):
                return True
        return done()

    def settle(self, step: script.WaitBlocked) -> None:
        """Wait until roles are inside their operations; workers, or one to be held, stand.

        Raises:
            Stalled: one did not begin to wait.
        """
        names = self._scenario.named(step.roles)
        attending = {name: Attendance() for name in names}
        inside = dict.fromkeys(names, 0.0)

        def settled(name: str) -> bool:
            actor = self._actors[name]
            if name in self._target_processes.actors:
                return actor.held_up or actor.status is not None
            if any(fault.fault == "hold" for fault in actor.armed.values()):
                return not actor.alive
            if actor.at_point and not actor.stopped:
                return True
            return inside[name] > _SETTLED or not actor.alive or not actor.outstanding

        def all_settled() -> bool:
            for name in names:
                actor = self._actors[name]
                order = actor.begun if actor.begun in actor.outstanding else None
                inside[name] = attending[name].look(actor.pid, order)
            return all(map(settled, names))

        if not self.until(all_settled, step.within, None, paced=True):
            late = next(name for name in names if not settled(name))
            raise Stalled(f"{late} did not begin to wait within {step.within:g} s")
        for name in names:
            self._log.write("settled", target=name, state=diagnosis.state(self._actors[name].pid))

    def await_stop(self, actor: RoleProcess) -> None:
        """Wait for the stop that a continue undoes: on a slow machine that may be yet to come.

        Raises:
            Stalled: it does not come.
        """

        def stopped() -> bool:
            pending = any(step.fault in ("stop", "hold") for step in actor.armed.values())
            return not (pending and self._on_its_way(actor))

        carried = [id for id, s in actor.armed.items() if s.at and s.at.op == "carry"]
        if carried:  # its own threads may come there or not, whatever its orders
            self.until(lambda: carried[0] not in actor.armed, _CARRIES_WITHIN, None)
            actor.armed.pop(carried[0], None)
            return
        self.until(stopped, 30.0, f"{actor.name} did not come to the point of its stop")

    def _on_its_way(self, actor: RoleProcess) -> bool:
        """Return whether it runs an operation by which it may yet come to a point."""
        starter = self._actors[self._scenario.roles()[0]]
        doing = starter if actor.name in self._target_processes.actors else actor
        return doing.alive and bool(doing.outstanding) and not doing.held_up


def look_at_maps(log: Log, actor: RoleProcess) -> None:
    """Record the shared memory that a role maps now."""
    names = diagnosis.mapped_segments(actor.pid)
    if names:
        log.write("mapped", target=actor.name, names=" ".join(names))


class _Patience:
    """Deadline of the wait for one role."""

    def __init__(self, waiting: HangDetector, actor: RoleProcess, within: float) -> None:
        self._waiting = waiting
        self._actor = actor
        self._stuck = min(_STUCK, within)
        self._since = waiting.denied()
        self._end = time.monotonic() + within

    def left(self) -> float:
        """Return the seconds until it hangs, as things stand now; zero or less if it does."""
        now = time.monotonic()
        actor = self._actor
        own = getattr(actor.outstanding.get(actor.begun), "timeout", None) or 0.0
        quiet = now - self._waiting.quiet_for(actor.name)
        doing = actor.outstanding.get(actor.begun)
        stuck = _STUCK_AT_EXIT if isinstance(doing, script.Exit) else self._stuck
        end = max(self._end, quiet + stuck, actor.begun_at + own + stuck)
        return end + self._waiting.allowed([self._actor.name], self._since) - now
