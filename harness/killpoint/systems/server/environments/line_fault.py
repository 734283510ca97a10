"""A fault at an exact source line of an engine, by a plugin that the engine loads itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

PLUGIN = Path(__file__).with_name("line_plugin")
"""The folder that goes on the path of an engine; its plugin does nothing unless it is told to."""


LOADER = Path(__file__).with_name("line_loader")
"""The folder that goes on the path beside it, of a server that loads no plugins."""
Hang = Literal["spin", "sleep", "hold-gil", "lost-lock", "file-lock", "full-pipe", "swallow"]
"""How a process stops serving without being dead: its thread computes without an end, or sleeps, or
sleeps with the interpreter's lock held, or waits for a lock whose holder has ended, or for one of a
file that another process holds, or writes to a pipe that nobody reads; or the call of the function
is not made, once."""
Act = Literal["kill", "stop", "terminate"] | Hang


class LineFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is done before which line of which process."""

    module: str
    function: str
    """Its qualified name in the module; neither a coroutine nor a generator."""
    line: str = ""
    """Text that exactly one line of the function holds; empty: see ``along``."""
    along: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """How far along the lines that the process passed twice and more until the gate was opened, in
    their order; if none, along those that it passed once, else along all that there are."""
    act: Act = "kill"
    title: str = ""
    """A regular expression for the process's name and command line at that moment; empty: any."""
    gated: bool = False
    """Whether a named line is struck only once the gate is open."""
    nth: Annotated[int, msgspec.Meta(ge=1)] = 1
    """At which passage of the line by such a process."""

    def variables(self, marks: Path) -> dict[str, str]:
        """What the environment of a play has it by; what happens is noted in that file."""
        given = {**msgspec.to_builtins(self), "marks": str(marks), "gate": str(gate(marks))}
        return {"KILLPOINT_LINE": msgspec.json.encode(given).decode()}


def gate(marks: Path) -> Path:
    """The file that is to be made for a process without a named line to be struck."""
    return marks.with_suffix(".gate")


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What the plugin noted: before the act, so that one is a proof that the line was reached."""

    what: Literal["armed", "failed"] | Act
    pid: int
    title: str
    time: float
    """Of the monotonic clock."""
    line: int = 0
    file: str = ""
    function: str = ""
    error: str = ""


def marks(file: Path) -> list[Mark]:
    """What is noted so far; nothing where no process has loaded the plugin."""
    if not file.exists():
        return []
    whole = [line for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [msgspec.json.decode(line, type=Mark) for line in whole]


def struck(file: Path) -> Mark | None:
    """The act, if it was done."""
    return next((mark for mark in marks(file) if mark.what not in ("armed", "failed")), None)
