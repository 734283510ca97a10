"""A few source files out of an archive that a stranger packed."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from killpoint.errors import CannotWork

WANTED = frozenset(
    PurePosixPath(folder)
    for folder in ("vllm/distributed", "vllm/distributed/device_communicators")
)
LARGEST = 4 * 1024 * 1024
"""Bytes; the largest of these files in any release so far is about a tenth of that."""


def take(archive: IO[bytes], into: Path) -> dict[str, str]:
    """Write the wanted files below ``into``: sha256 by path, for each of them.

    Raises:
        CannotWork: the archive is damaged, or holds something that no source archive needs: a
            name that leads outside, a link or device in place of a file, an absurd size.
    """
    taken: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=archive, mode="r:*") as tar:
            for member in tar:
                path = _inside(member.name)
                if path.parent in WANTED and path.suffix == ".py":
                    taken[str(path)] = _write(tar, member, into / path)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        why = " ".join(str(error).split())
        raise CannotWork(f"the source archive is damaged: {why}") from error
    return taken


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise CannotWork(f"the source archive has a member that leads outside: {name!r}")
    return PurePosixPath(*path.parts[1:])


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> str:
    source = tar.extractfile(member) if member.isreg() else None
    if source is None:
        raise CannotWork(f"the source archive has {member.name!r} as something else than a file")
    if member.size > LARGEST:
        raise CannotWork(f"the source archive has {member.name!r} with {member.size} bytes")
    content = source.read()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()
