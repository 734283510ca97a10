"""Settings of a campaign, kept in its folder: a resumed one has the same."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from killpoint.campaign.journal import Entry, read
from killpoint.case import Case, Tier
from killpoint.cases import select
from killpoint.errors import BadUsage
from killpoint.targets.registry import is_server
from killpoint.targets.shapes import Device

_FILE = "campaign.json"


class Settings(msgspec.Struct):
    """The options of ``killpoint campaign`` that say what is played."""

    target: str = "refengine"
    only: list[str] = []
    tier: Tier | None = None
    device: Device = "cpu"
    seed: int = 0
    jobs: int | None = None
    """Items at a time on one machine; two for each core if none. Of whole servers one is played."""
    ray: str | None = None
    """The cluster that plays: ``auto`` or its address."""

    def cases(self) -> list[Case]:
        """The cases that are played.

        Raises:
            BadUsage: one that does not exist, or none at all.
        """
        asked = select(self.only, server=is_server(self.target))
        chosen = [case for case in asked if self.tier in (None, case.tier)]
        if not asked:
            told = ", ".join(self.only)
            raise BadUsage(f"{self.target} is not asked {told}; see killpoint list cases")
        if not chosen:
            raise BadUsage("no case is of that tier; see killpoint list cases")
        return chosen


def create(folder: Path, settings: Settings) -> None:
    """Make the campaign's folder.

    Raises:
        BadUsage: there is one already.
    """
    file = folder / _FILE
    if file.exists():
        raise BadUsage(f"{folder}: a campaign is there; expected --resume {folder}, or another DIR")
    folder.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(settings), indent=2)
    file.write_bytes(text + b"\n")


def load(folder: Path) -> Settings:
    """The settings of the campaign in a folder.

    Raises:
        BadUsage: there is none, or they are damaged.
    """
    file = folder / _FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=Settings)
    except OSError as error:
        raise BadUsage(f"{file}: {error.strerror}; expected the folder of a campaign") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadUsage(f"{file}: {error}; expected the settings of a campaign") from error


def journal_of(folder: Path) -> Path:
    """Return the path of the campaign's journal."""
    return folder / "journal.jsonl"


def entries_of(folder: Path) -> list[Entry]:
    """Return the entries of the campaign's journal; none if it was never played."""
    journal = journal_of(folder)
    return read(journal) if journal.exists() else []


@contextmanager
def owned(folder: Path) -> Generator[None]:
    """Keep every other process from playing this campaign, until the context is left.

    Raises:
        BadUsage: another process plays it.
    """
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise BadUsage(f"{folder}: this campaign is being played by another process") from error
        yield
