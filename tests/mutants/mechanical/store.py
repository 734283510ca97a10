"""Fates of earlier runs: what was killed stays killed, as long as its file is the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from mechanical.changes import Change
from mechanical.trial import Fate


class Kept(msgspec.Struct):
    """A fate, and of which source and tests."""

    source: str
    tests: str
    nth: int
    fate: Fate


class Store:
    """A file with a line for each fate; without a path, nothing is remembered."""

    def __init__(self, path: Path | None, tests: str) -> None:
        """``tests``: changes when a test does, so that survivors are tried again."""
        self._path = path
        self._tests = tests
        self._kept: dict[tuple[str, int], Kept] = {}
        if path is not None and path.exists():
            for line in path.read_bytes().splitlines():
                kept = msgspec.json.decode(line, type=Kept)
                self._kept[kept.source, kept.nth] = kept

    def find(self, change: Change, source: str, nth: int) -> Fate | None:
        """The fate of a file's ``nth`` change, if it is known and still true."""
        kept = self._kept.get((_sum(change.file, source), nth))
        if kept is None or (kept.fate.new, kept.fate.operator) != (change.new, change.operator):
            return None
        return kept.fate if kept.fate.caught or kept.tests == self._tests else None

    def keep(self, fate: Fate, source: str, nth: int) -> None:
        """Remember a fate at once: a run may be ended at any time."""
        if self._path is None:
            return
        kept = Kept(_sum(fate.file, source), self._tests, nth, fate)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(kept) + b"\n")


def _sum(file: str, source: str) -> str:
    return hashlib.sha256(f"{file}\0{source}".encode()).hexdigest()[:16]
