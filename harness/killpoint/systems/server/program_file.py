"""``serve:FILE.toml``: any server, told in a file. What is wrong in one is told by its line."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from killpoint.systems.server.program import ServerProgram


def load_program(file: Path) -> ServerProgram:
    """The server in a file.

    Raises:
        BadUsage: the file cannot be read, or tells of no server: file, line, what, expected.
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
        raise BadUsage(f"{file}:{_line_of(text, field)}: {what}")
    here = str(file.absolute().parent)
    command = [word.replace("{here}", here) for word in program.command]
    return msgspec.structs.replace(program, command=command)


def _wrong(program: ServerProgram) -> list[tuple[str, str]]:
    """What is well formed, and cannot be played: which field, and what."""
    found: list[tuple[str, str]] = []
    if not program.command:
        found.append(("command", "an empty command; expected the words of a command line"))
    words = [*program.command, *program.environment.values()]
    if not any("{port}" in word for word in words):
        what = "nothing takes the port; expected `{port}` in `command` or `environment`"
        found.append(("command", what))
    for kind, pattern in program.titles.items():
        try:
            re.compile(pattern)
        except re.error as error:
            found.append((kind, f"{pattern!r}: {error}; expected a regular expression"))
    if not program.health.startswith("/"):
        found.append(("health", f"{program.health!r}; expected a path that begins with a slash"))
    return found


def _explained(text: str, message: str) -> tuple[int, str]:
    """Line and sentence for what the decoder said."""
    unknown = re.match(r"Object contains unknown field `([^`]+)`", message)
    if unknown:
        known = ", ".join(field.encode_name for field in msgspec.structs.fields(ServerProgram))
        what = f"unknown key {unknown[1]!r}; expected one of: {known}"
        return _line_of(text, unknown[1]), what
    said, _, at = message.partition(" - at `$")
    key = re.findall(r"\w+", at)
    return _line_of(text, key[-1] if key else ""), said[0].lower() + said[1:]


def _line_of(text: str, key: str) -> int:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(rf"\s*(\[+\s*)?[\w.]*?\b{re.escape(key)}\b", line) and key:
            return number
    return 1
