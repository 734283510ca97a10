"""A few source files out of an archive of untrusted origin."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from killpoint.errors import CannotWork

WANTED = frozenset(
    PurePosixPath(path)
    for path in (
        "vllm/envs.py",
        "vllm/distributed",
        "vllm/distributed/device_communicators",
        "vllm/distributed/kv_transfer/kv_pipe",
        "vllm/v1/executor",
        "vllm/v1/engine/__init__.py",
        "vllm/v1/engine/coordinator.py",
    )
)
LARGEST = 4 * 1024 * 1024
"""Largest size of a file, in bytes; the largest of these in any release so far is about a tenth of
it."""


def take(
    archive: IO[bytes], into: Path, wanted: frozenset[PurePosixPath] | None = None
) -> dict[str, str]:
    """Write the wanted Python files below ``into``; return the sha256 of each by its path.

    Args:
        wanted: files, or folders whose own files are all wanted; by default ``WANTED``.

    Raises:
        CannotWork: the archive is damaged, or holds something that no source archive needs: a
            name that leads outside, a link or device in place of a file, an absurd size.
    """
    kept, taken = WANTED if wanted is None else wanted, dict[str, str]()
    try:
        with tarfile.open(fileobj=archive, mode="r:*") as tar:
            for member in tar:
                path = PurePosixPath(*inside(member.name).parts[1:])
                if is_wanted(path, kept):
                    taken[str(path)] = _write(tar, member, into / path)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        why = " ".join(str(error).split())
        raise CannotWork(f"the source archive is damaged: {why}") from error
    return taken


def is_wanted(path: PurePosixPath, wanted: frozenset[PurePosixPath]) -> bool:
    """Return whether it is one of these Python files, or lies right in one of these folders."""
    return path.suffix == ".py" and (path in wanted or path.parent in wanted)


def inside(name: str) -> PurePosixPath:
    """Return a member's name as a path, which stays in the folder that it is unpacked into."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise CannotWork(f"the archive has a member that leads outside: {name!r}")
    return path


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> str:
    source = tar.extractfile(member) if member.isreg() else None
    if source is None:
        raise CannotWork(f"the archive has {member.name!r} as something else than a file")
    return keep(source, member.name, member.size, path)


def keep(source: IO[bytes], name: str, size: int, path: Path) -> str:
    """Write one member to a path, unless it is absurdly large; return its sha256."""
    if size > LARGEST:
        raise CannotWork(f"the archive has {name!r} with {size} bytes")
    content = source.read()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()
