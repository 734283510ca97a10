"""``serve:FILE.toml``: any server, described in a file. Errors are reported with their line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec

from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID
from killpoint.scenario_errors import Place, explain, line_of
from killpoint.systems.server.program import TOPOLOGIES, PartKind, ServerProgram


def load_program(file: Path) -> ServerProgram:
    """Return the server that a file describes.

    Raises:
        BadUsage: the file cannot be read, or describes no server: file, line, what, expected.
    """
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadUsage(f"{file}: cannot be read: {error}; expected a server's file") from error
    try:
        program = msgspec.toml.decode(text, type=ServerProgram)
    except msgspec.ValidationError as error:
        line, what = _explained(text, str(error))
        raise BadUsage(f"{file}:{line}: {what}") from error
    except msgspec.DecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        raise BadUsage(f"{file}:{at[1] if at else 1}: {error}; expected TOML") from error
    for field, what in _wrong(program):
        raise BadUsage(f"{file}:{line_of(text, field)}: {what}")
    here = str(file.absolute().parent)
    command = [word.replace("{here}", here) for word in program.command]
    return msgspec.structs.replace(program, command=command)


def _wrong(program: ServerProgram) -> list[tuple[Place, str]]:
    """Return the field and the error of each part that is well formed and cannot be played."""
    found: list[tuple[Place, str]] = []
    if not program.command:
        found.append((["command"], "an empty command; expected the words of a command line"))
    words = [*program.command, *program.environment.values()]
    if not any("{port}" in word for word in words):
        what = "nothing takes the port; expected `{port}` in `command` or `environment`"
        found.append((["command"], what))
    for kind, pattern in program.titles.items():
        try:
            re.compile(pattern)
        except re.error as error:
            found.append((["titles", kind], f"{pattern!r}: {error}; expected a regular expression"))
    for field, ids in (("disclaims", program.disclaims), ("unjudged", program.unjudged)):
        for id in ids:
            if id not in BY_ID:
                what = f"unknown invariant {id!r}; expected one of: {', '.join(BY_ID)}"
                found.append(([field, id], what))
    if not program.health.startswith("/"):
        found.append((["health"], f"{program.health!r}; expected a path that begins with a slash"))
    return found


def _explained(text: str, message: str) -> tuple[int, str]:
    """Return the line and a sentence for an error of the decoder."""
    key = re.match(r"Invalid enum value '(.*)' - at `key` in `\$\.(\w+)`", message)
    if key is None:
        return explain(text, message, ServerProgram)
    known = TOPOLOGIES if key[2] == "topologies" else get_args(PartKind)
    return line_of(text, [key[2], key[1]]), f"unknown key {key[1]!r}; expected: {', '.join(known)}"
