"""A fault at an exact source line of an engine, by a plugin that the engine loads itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

PLUGIN = Path(__file__).with_name("line_plugin")
"""Folder that goes on the path of an engine; its plugin is inert unless the environment sets a
fault."""


LOADER = Path(__file__).with_name("line_loader")
"""Folder that goes on the path beside it, for a server that loads no plugins."""
Hang = Literal["spin", "sleep", "hold-gil", "lost-lock", "file-lock", "full-pipe", "swallow"]
"""Ways in which a process stops serving without being dead: its thread computes without an end;
sleeps; sleeps with the interpreter's lock held; waits for a lock whose holder has ended; waits for
a file lock that another process holds; writes to a pipe that no process reads; or one call of the
function is not made."""
Act = Literal["kill", "stop", "terminate"] | Hang


class LineFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fault that strikes a process before a line of a function."""

    module: str
    function: str
    """Its qualified name in the module; neither a coroutine nor a generator."""
    line: str = ""
    """Text that exactly one line of the function holds; empty: ``along`` chooses the line."""
    along: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Position (0 to 1) among the lines that the process passed at least twice until the gate was
    opened, and in the last two seconds of that, in their order; if there are none, among those that
    it passed once. If it passed none, or has not come there again a second later, the first line
    that it comes to from that position on."""
    act: Act = "kill"
    title: str = ""
    """A regular expression for the process's name and command line at that moment; empty: any."""
    gated: bool = False
    """True if a named line is struck only once the gate is open."""
    nth: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Number of the passage of the line, by such a process, at which the fault strikes."""

    def variables(self, marks: Path) -> dict[str, str]:
        """Return the variables of a play that carry the fault; events are noted in ``marks``."""
        given = {**msgspec.to_builtins(self), "marks": str(marks), "gate": str(gate(marks))}
        return {"KILLPOINT_LINE": msgspec.json.encode(given).decode()}


def gate(marks: Path) -> Path:
    """Return the gate: the file whose creation releases a fault without a named line."""
    return marks.with_suffix(".gate")


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Note of the plugin, written before the act: an act that is noted was reached."""

    what: Literal["armed", "failed"] | Act
    pid: int
    title: str
    time: float
    """Seconds of the monotonic clock."""
    line: int = 0
    file: str = ""
    function: str = ""
    error: str = ""


def marks(file: Path) -> list[Mark]:
    """Return the notes so far; none if no process has loaded the plugin."""
    if not file.exists():
        return []
    whole = [line for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [msgspec.json.decode(line, type=Mark) for line in whole]


def struck(file: Path) -> Mark | None:
    """Return the note of the act, if it was done."""
    return next((mark for mark in marks(file) if mark.what not in ("armed", "failed")), None)
