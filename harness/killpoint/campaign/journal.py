"""The journal of a campaign: one line for each intent and each result, on disk before it counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import msgspec

from killpoint.campaign.item import Item
from killpoint.errors import BadUsage

Why = Literal["interrupted", "budget", "lost"]


class Session(msgspec.Struct, tag="session"):
    """A process has begun to play the campaign, or to play it on."""

    t: float
    """Seconds that the campaign had been played before; so in every event."""
    pid: int
    seconds: float
    """The budget of this session."""


class Begun(msgspec.Struct, tag="begin"):
    """An item is about to be played."""

    t: float
    item: Item


class Ended(msgspec.Struct, tag="end"):
    """An item was played; its findings are on disk."""

    t: float
    key: str
    word: str
    """Outcome of the case, ending of a replay, or ``infrastructure``: the harness failed."""
    seconds: float = 0.0
    plays: int = 0
    swept: bool = False
    cause: str = ""
    found: list[str] = []
    """Signatures of what was violated."""


class GivenBack(msgspec.Struct, tag="back"):
    """An item that was begun is to be played again."""

    t: float
    key: str
    why: Why
    cause: str = ""


class Closed(msgspec.Struct, tag="close"):
    """The session has ended by itself."""

    t: float
    why: str


Entry = Session | Begun | Ended | GivenBack | Closed
_DECODER: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def read(path: Path) -> list[Entry]:
    """Return every entry; a last line that was torn by an abrupt end is left out.

    Raises:
        BadUsage: there is no journal, or a whole line is damaged: file, line, what is wrong.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise BadUsage(f"{path}: {error.strerror}; expected the journal of a campaign") from error
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        try:
            entries.append(_DECODER.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadUsage(f"{path}:{number}: {error}; expected an entry of a journal") from error
    return entries


class Journal:
    """The end of the file, where entries are added. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Open the journal, and remove a torn last line: what it recorded never counted."""
        self._file = path.open("a+b", buffering=0)
        self._file.seek(0)
        whole = self._file.read()
        self._file.truncate(whole.rfind(b"\n") + 1)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, entry: Entry) -> None:
        """Write an entry; when this returns, it outlasts the machine's end."""
        line = msgspec.json.encode(entry) + b"\n"
        written = self._file.write(line)
        while written < len(line):  # a disk that fills up takes a part; the next write says so
            written += self._file.write(line[written:])
        os.fsync(self._file.fileno())
