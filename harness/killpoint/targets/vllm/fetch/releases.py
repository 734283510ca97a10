"""Published releases: found once through the machine's index, then kept in a cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from packaging.version import InvalidVersion, Version

from killpoint.cache import cache_root
from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.vllm.fetch import archive, wheel
from killpoint.targets.vllm.fetch.index import configured
from killpoint.targets.vllm.project import VLLM, Project
from killpoint.targets.vllm.sources import Sources

if TYPE_CHECKING:
    from unearth import Link

_RECORD = "source.json"


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a stored release."""

    version: str
    url: str
    sha256: str
    """sha256 of the whole archive."""
    from_index: bool
    """True if the index gave that hash; if not, it is only that of what came."""
    files: dict[str, str]
    """sha256 of each stored file, by its path."""


def parse(text: str, project: Project = VLLM) -> Version:
    """Return a version as written after ``NAME==``.

    Raises:
        BadUsage: it is not a version.
    """
    try:
        return Version(text)
    except InvalidVersion as error:
        name = project.name
        what = f"{name}=={text}: {text!r} is not a version; expected {name}==X.Y.Z"
        raise BadUsage(what) from error


def cache_folder(project: Project = VLLM) -> Path:
    """Return the folder of a project's releases, which are kept by version."""
    return cache_root() / project.name


def stored(version: Version, project: Project = VLLM) -> Sources | None:
    """Return a release that was fetched before, or None. Never uses the network."""
    home = cache_folder(project) / str(version)
    try:
        record = msgspec.json.decode((home / _RECORD).read_bytes(), type=Record)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise CannotWork(f"{home / _RECORD}: {error}; remove {home} and start again") from error
    whose = "as given by the index" if record.from_index else "the index gave none to compare"
    return project.sources(
        spec=f"{project.name}=={version}",
        version=record.version,
        root=home,
        expected=record.files,
        origin=f"{record.url} (sha256 {record.sha256}, {whose})",
    )


def fetch(version: Version, project: Project = VLLM) -> Sources:
    """Return a release from the cache, or from the machine's package index.

    Raises:
        BadUsage: no such release, none with a source archive, or one without a message queue.
        CannotWork: the index, the network, the disk or the archive is at fault.
    """
    found = stored(version, project)
    if found is not None and found.whole():
        return found
    try:
        return _fetched(version, project)
    except (BadUsage, CannotWork):
        if found is None:
            raise
        return found  # what an older killpoint kept of it will do for the queue


def _fetched(version: Version, project: Project) -> Sources:
    from killpoint.targets.vllm.fetch import lookup

    index = configured()
    name = f"{project.name}=={version}"
    with lookup.session(index) as client:
        link = lookup.choose(version, lookup.listing(index, client, project), project)
        try:
            with _alone(cache_folder(project)) as folder:
                found = stored(version, project)
                if found is None or not found.whole():
                    with _incoming(folder) as incoming:
                        lookup.download(client, link, incoming / "archive")
                        _keep(incoming / "archive", link, version, incoming / "release", project)
                        _replace(incoming, folder / str(version))
                    found = stored(version, project)
        except OSError as error:
            raise CannotWork(f"{name}: cannot be stored: {error}") from error
    if found is None:
        raise CannotWork(f"{name}: vanished from {cache_folder(project)} while being stored")
    return found


def _replace(incoming: Path, home: Path) -> None:
    """Put the release in its place, and what an older killpoint kept of it out of the way."""
    if home.exists():
        home.rename(incoming / "outgrown")
    (incoming / "release").replace(home)


def _keep(path: Path, link: Link, version: Version, home: Path, project: Project) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        files = (wheel if link.is_wheel else archive).take(file, home, project.wanted)
    compared = "sha256" in (link.hash_option or {})
    record = Record(str(version), link.redacted, digest, compared, files)
    home.mkdir(exist_ok=True)
    spec = f"{project.name}=={version}"
    project.sources(spec, str(version), home, files, link.redacted).features()
    with (home / _RECORD).open("wb") as out:
        out.write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        out.flush()
        os.fsync(out.fileno())


@contextmanager
def _alone(folder: Path) -> Generator[Path]:
    """Hold the cache: a process that asks for the same release waits, and then has it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(handle)


@contextmanager
def _incoming(folder: Path) -> Generator[Path]:
    """Make a place for what is not whole yet; a killed predecessor's is removed first."""
    place = folder / "incoming"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
