"""Environments in the cache: made once, whole or not at all, by one process at a time.

A folder is an environment only if it holds its record, which is written last. A folder without a
record was left by a maker that was killed: it is never used, and the next maker removes it. An
environment is made where it is used, because the programs of a virtual environment hold its path.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Generator
from pathlib import Path

import msgspec

from killpoint.cache import cache_root
from killpoint.errors import CannotWork
from killpoint.systems.server.environments.pip import Tell

_RECORD = "environment.json"
_HEADROOM = 500 * 10**6
"""Bytes that must stay free on the disk."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about an environment that is whole."""

    name: str
    bytes: int
    """Size on the disk, in bytes."""
    seconds: float
    """Seconds that making it took."""
    fetched: int
    """Size of the packages that it was made of, in bytes."""
    notes: tuple[str, ...] = ()
    """Lines for the card."""


class Environment(msgspec.Struct, frozen=True):
    """An environment that is whole."""

    home: Path
    record: Record


class Plan(msgspec.Struct, frozen=True):
    """Environment that is to be made, and how."""

    name: str
    """Name of its folder."""
    command: str
    """Command that makes it, for messages to the user."""
    fetched: int
    """Bytes to fetch."""
    size: int
    """Approximate size on the disk, in bytes."""
    minutes: float
    """Approximate minutes that making it takes on two cores."""
    fill: Callable[[Path, Path, int], tuple[str, ...]]
    """Function that makes it in an empty folder, given a log and the descriptor of the lock, which
    each process that writes there is to inherit; returns the notes."""


def folder() -> Path:
    """Return the folder of all environments."""
    return cache_root() / "environments"


def stored(name: str) -> Environment | None:
    """A whole environment, or None.

    Raises:
        CannotWork: its record is damaged.
    """
    home = folder() / name
    try:
        record = msgspec.json.decode((home / _RECORD).read_bytes(), type=Record)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise CannotWork(f"{home / _RECORD}: {error}; remove {home} and start again") from error
    return Environment(home, record)


def every() -> list[Environment]:
    """Return the environments that are whole, by name."""
    names = sorted(path.name for path in folder().glob("*") if path.is_dir())
    found = [stored(name) for name in names]
    return [each for each in found if each is not None]


def made(plan: Plan, offline: bool, tell: Tell) -> Environment:
    """Return the environment, made now if it is missing.

    Raises:
        CannotWork: it is not there and may not be fetched, or cannot be made.
    """
    found = stored(plan.name)
    if found is not None:
        return found
    if offline:
        raise CannotWork(
            f"{plan.name} is not in {folder()}, and is not fetched offline; to make it:"
            f" {plan.command}"
        )
    try:
        with _alone(plan.name, tell) as lock:
            return stored(plan.name) or _make(plan, lock, tell)
    except OSError as error:
        raise CannotWork(f"{plan.name}: cannot be made in {folder()}: {error}") from error


def _make(plan: Plan, lock: int, tell: Tell) -> Environment:
    home, began = folder() / plan.name, time.monotonic()
    log = _log(plan.name)
    if home.exists():
        tell(f"{plan.name}: an unfinished one is removed")
        shutil.rmtree(home)
    free = shutil.disk_usage(folder()).free
    if free < plan.size + plan.fetched + _HEADROOM:
        raise CannotWork(
            f"{plan.name} needs {_gigabytes(plan.size + plan.fetched + _HEADROOM)} on the disk of"
            f" {folder()}, which has {_gigabytes(free)} left"
        )
    tell(
        f"{plan.name}: {_gigabytes(plan.fetched)} to fetch, {_gigabytes(plan.size)} on the disk in"
        f" {home}, about {plan.minutes:g} min on two cores"
    )
    home.mkdir()
    try:
        notes = plan.fill(home, log, lock)
        seconds = round(time.monotonic() - began, 1)
        record = Record(plan.name, used(home), seconds, plan.fetched, notes)
        _write(home, record)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    tell(f"{plan.name}: made in {seconds:.0f} s, {_gigabytes(record.bytes)}")
    return Environment(home, record)


def _write(home: Path, record: Record) -> None:
    """Write the record so that it appears whole, after everything else."""
    unfinished = home / f".{_RECORD}"
    with unfinished.open("wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    unfinished.rename(home / _RECORD)


def _log(name: str) -> Path:
    """Return the log for the output of a maker; it stays, also if making failed."""
    logs = folder() / "logs"
    logs.mkdir(exist_ok=True)
    return logs / f"{name}.log"


@contextlib.contextmanager
def _alone(name: str, tell: Tell) -> Generator[int]:
    """Hold the folder: another process that makes an environment waits meanwhile.

    The lock is held until the last process that inherited its descriptor has ended, so that no
    maker overwrites what children of a killed one still write.
    """
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    lock = os.open(place / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"{name}: waiting for another process that makes an environment in {place}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def used(home: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    return sum(
        os.lstat(os.path.join(at, name)).st_blocks * 512  # noqa: PTH118 # 60,000 files
        for at, _, names in os.walk(home)
        for name in names
    )


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 10**8 else f"{number / 1e6:.0f} MB"
