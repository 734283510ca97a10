"""The runner's half of a fault at a time: a role strikes itself, and the runner observes it."""

from __future__ import annotations

from collections.abc import Iterable

from killpoint.errors import BadUsage
from killpoint.history.log import Log
from killpoint.runner.observe.diagnosis import state
from killpoint.runner.role_process import RoleProcess
from killpoint.scenario import Fault


class TimedFaults:
    """Faults whose timers run in their roles."""

    def __init__(self, log: Log) -> None:
        """Start with no fault armed."""
        self._log = log
        self._stops = False

    def begin(self, actor: RoleProcess, step: Fault) -> None:
        """Record that a role is armed; from here on one to be killed may be dead at any time."""
        if step.at is None or step.at.after is None:
            raise BadUsage(f"{step.at} of {step.role} are for a series of plays, not for one")
        if step.fault == "kill":
            self._log.write("intent", fault="kill", target=actor.name, where=_place(step))
        else:
            self._stops = True

    def ended(self, actor: RoleProcess) -> None:
        """Handle a role's end, which its timer caused unless the runner has killed it."""
        if not actor.killed:
            self._struck(actor, "kill")

    def look(self, actors: Iterable[RoleProcess]) -> None:
        """Record the roles that have stopped themselves."""
        for actor in actors if self._stops else ():
            armed = any(_is_timed(step, "stop") for step in actor.armed.values())
            if armed and actor.alive and state(actor.pid) == "T":
                actor.stopped = True
                self._struck(actor, "stop")

    def _struck(self, actor: RoleProcess, fault: str) -> None:
        for id, step in list(actor.armed.items()):
            if not _is_timed(step, fault):
                continue
            del actor.armed[id]
            where = _place(step)
            self._log.write("reached", target=actor.name, where=where)
            if fault == "stop":
                self._log.write("intent", fault=fault, target=actor.name, where=where)
            self._log.write("fault", fault=fault, target=actor.name, where=where, pid=actor.pid)


def _is_timed(step: Fault, fault: str) -> bool:
    return step.fault == fault and step.at is not None and step.at.kind() == "times"


def _place(step: Fault) -> str:
    assert step.at is not None
    assert step.at.after is not None
    return f"{step.at.after * 1e6:.0f} µs into {step.at.op}"
