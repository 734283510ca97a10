"""Bundles: a look in a file that may leave the machine, without tokens, keys and prompts.

These stay: process numbers, states and ages, names of programs, functions, files and lines, rings
and their flags, who waits for whom. These are taken out: the values of options, all that looks like
a secret wherever it stands, source lines (a program may have a key in one), home folders, addresses
of other machines.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
from pathlib import Path
from typing import Any, cast

import msgspec

from killpoint import __version__
from killpoint.errors import BadUsage, CannotWork
from killpoint.inspection.model import Picture

SCHEMA = 1
_GONE = "…"
_VALUES = re.compile(r"(?<![\w.-])(?!-m\b)(--?[A-Za-z][\w-]*)(=|\s+)(?!-)(\"[^\"]*\"|'[^']*'|\S+)")
"""An option and its value, whatever it is for: no list has the names of all secrets."""
_SECRETS = re.compile(
    r"(?i:bearer|basic)\s+\S+"
    r"|\b(?:sk|hf|ghp|gho|xox[abp]|AKIA|eyJ)[-_A-Za-z0-9.]{8,}"
    r"|(?i:[\w-]*(?:key|token|secret|passw(?:or)?d|credential)[\w-]*)\s*[=:]\s*(?!…)\S+"
    r"|\b(?=[A-Za-z0-9_+-]*\d)(?=[A-Za-z0-9_+-]*[A-Za-z])[A-Za-z0-9_+-]{32,}={0,2}"
)
_USER = re.compile(r"://[^/@\s]+@")
_HOME = re.compile(r"/(?:home|Users)/[^/\s:)]+|/root(?=/)")
_REMOTE = re.compile(r"\b(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}\b")


class Bundle(msgspec.Struct, frozen=True):
    """One look, with its time and machine."""

    picture: Picture
    taken: str
    """Time of the look in UTC, as ISO 8601 has it."""
    system: dict[str, str]
    missing: tuple[str, ...] = ()
    """Parts that could not be read there, each with the reason."""
    killpoint: str = __version__
    schema: int = SCHEMA


def bundle(picture: Picture) -> Bundle:
    """Return a look without anything that is private."""
    taken = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    system = {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "processors": str(os.cpu_count() or 0),
    }
    return Bundle(redacted(picture), taken, system, tuple(missing(picture)))


def redacted(picture: Picture) -> Picture:
    """The same picture without secrets, in every text of it."""
    return msgspec.convert(_redacted(msgspec.to_builtins(picture)), Picture, strict=False)


def plain(text: str) -> str:
    """A text without what may be secret."""
    text = _VALUES.sub(lambda found: f"{found[1]}{found[2]}{_GONE}", text)
    text = _SECRETS.sub(_GONE, _USER.sub(f"://{_GONE}@", text))
    return _REMOTE.sub(_GONE, _HOME.sub("~", text))


def missing(picture: Picture) -> list[str]:
    """Return what of a living tree could not be seen, and what it takes to see it."""
    alive = [process for process in picture.processes if not process.dead]
    blind = [process.pid for process in alive if not process.threads]
    if not blind:
        return []
    whose = "no process" if len(blind) == len(alive) else f"pid {', '.join(map(str, blind))}"
    told = "has" if len(blind) == len(alive) else "have none of their"
    return [
        f"Python stacks: {whose} {told} readable stacks, which takes py-spy and the right to trace"
        " (the same user with kernel.yama.ptrace_scope 0, or CAP_SYS_PTRACE: in a container"
        " --cap-add SYS_PTRACE); a process that is not Python has none"
    ]


def write(found: Bundle, file: Path) -> None:
    """Write it, for its owner alone.

    Raises:
        CannotWork: it cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(found), indent=1)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(text + b"\n")
    except OSError as error:
        raise CannotWork(f"{file}: cannot be written: {error}") from error


def read(file: Path) -> Bundle:
    """A bundle that was written here or elsewhere.

    Raises:
        BadUsage: there is none in the file, or one of a later killpoint.
    """
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Bundle)
    except OSError as error:
        raise BadUsage(f"{file}: cannot be read: {error}; expected a bundle") from error
    except msgspec.DecodeError as error:
        raise BadUsage(f"{file}: no bundle of inspect --bundle: {error}") from error
    if found.schema > SCHEMA:
        said = f"its schema is {found.schema}, and this killpoint reads up to {SCHEMA}"
        raise BadUsage(f"{file}: {said}: it was made by killpoint {found.killpoint}")
    return found


def head(found: Bundle) -> str:
    """A line on where a picture comes from."""
    system = ", ".join(f"{name} {value}" for name, value in found.system.items())
    return f"a bundle of killpoint {found.killpoint}, taken {found.taken} elsewhere ({system})"


def _redacted(value: Any, key: str = "") -> Any:
    match value:
        case str():
            return "" if key == "line" else plain(value)
        case dict():
            named = cast("dict[str, Any]", value)
            return {name: _redacted(each, name) for name, each in named.items()}
        case list() | tuple():
            return [_redacted(each, key) for each in cast("list[Any]", value)]
        case _:
            return value
