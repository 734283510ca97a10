"""Tracers of a play: roles that are counted or struck at a native system call, and the results."""

from __future__ import annotations

from pathlib import Path

from killpoint.history.log import Log
from killpoint.points.calls import CallTrace
from killpoint.points.refusal import NothingThere, Refused
from killpoint.runner.role_process import RoleProcess
from killpoint.scenario import Point


class CallWatch:
    """Tracers that are attached to roles from the declaration of a point until their end."""

    def __init__(self, log: Log, folder: Path) -> None:
        """Start without tracers."""
        self._log = log
        self._folder = folder
        self._traces: dict[str, CallTrace] = {}

    def begin(self, actor: RoleProcess, point: Point) -> None:
        """Trace this role from now on; log the reason if that is impossible."""
        assert point.syscall is not None
        output = self._folder / f"{actor.name}.calls"
        if point.call is not None:
            # The tracer strikes by itself: from here on the role may be dead at any time.
            self._log.write("intent", fault="kill", target=actor.name, where=_place(point))
        try:
            self._traces[actor.name] = CallTrace(actor.pid, point.syscall, point.call, output)
        except NothingThere as nothing:
            self._log.write("lacking", error=f"the {actor.name} has {nothing}")
        except Refused as refused:
            self._log.write("unable", error=str(refused))

    def ended(self, actor: RoleProcess) -> None:
        """Handle a role's end; if its tracer caused it, its point was reached."""
        trace = self._traces.get(actor.name)
        if trace is None:
            return
        trace.end()
        if not trace.struck():
            return
        for id, step in list(actor.armed.items()):
            if step.at is not None and step.at.kind() == "calls":
                del actor.armed[id]
                where = _place(step.at)
                self._log.write("reached", target=actor.name, where=where)
                self._log.write(
                    "fault", fault="kill", target=actor.name, where=where, pid=actor.pid
                )

    def close(self) -> None:
        """End every tracer, and log its counts."""
        for role, trace in self._traces.items():
            trace.end()
            counts = trace.counts()
            count = max(counts, default=0)
            self._log.write("calls", target=role, of=trace.syscall, count=count, threads=counts)
        self._traces.clear()


def _place(point: Point) -> str:
    return f"{point.syscall} {point.call} of a native thread"
