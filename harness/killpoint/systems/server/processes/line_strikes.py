"""Faults at a line of a server's own code: the server's environment for them, and their record."""

from __future__ import annotations

from pathlib import Path

from killpoint.history.log import Log
from killpoint.scenario import Scenario
from killpoint.systems.server.environments import line_fault
from killpoint.systems.server.environments.line_fault import LineFault, gate
from killpoint.systems.server.program import LinePath, ServerProgram
from killpoint.systems.server.steps import ServerLine


class LineStrikes:
    """The one fault at a line that a scenario has, if it has one."""

    def __init__(self, program: ServerProgram, scenario: Scenario, folder: Path, log: Log) -> None:
        steps = (step for step in scenario.steps if isinstance(step, ServerLine))
        self._step = next(steps, None)
        self._program, self._log = program, log
        self._marks = folder / "lines"

    def variables(self) -> dict[str, str]:
        """Return what the server's environment must have for it."""
        if self._step is None:
            return {}
        path = self._program.lines[self._step.path]
        fault = LineFault(
            module=path.module,
            function=path.function,
            line=path.line,
            gated=True,
            along=self._step.along,
            act="terminate" if self._step.fault == "sigterm" else self._step.fault,
            title=self._program.titles.get(path.part, ""),
        )
        return fault.variables(self._marks)

    def open(self, step: ServerLine) -> LinePath:
        """Open the gate: from now on a part that comes to its line is struck."""
        path = self._program.lines[step.path]
        self._log.write("intent", fault=step.fault, target=path.part, where=step.path)
        gate(self._marks).touch()
        return path

    def struck(self) -> int | None:
        """Return the pid of the process that came to its line, and was struck right after."""
        mark = line_fault.struck(self._marks)
        return None if mark is None else mark.pid

    def tell(self, step: ServerLine, part: str, open_requests: int) -> None:
        """Record a fault that was seen to act, with the line of the server's own code."""
        mark = line_fault.struck(self._marks)
        where = "" if mark is None else f"{Path(mark.file).name}:{mark.line} in {mark.function}"
        told = {"fault": step.fault, "target": part}
        self._log.write("fault", **told, where=where, open=open_requests)
        self._log.write("struck", **told)
