"""A few source files out of a wheel, for releases that have no source archive."""

from __future__ import annotations

import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from killpoint.errors import CannotWork
from killpoint.targets.vllm.fetch.archive import WANTED, inside, is_wanted, keep


def take(
    archive: IO[bytes], into: Path, wanted: frozenset[PurePosixPath] | None = None
) -> dict[str, str]:
    """Write the wanted Python files below ``into``; return the sha256 of each by its path.

    Raises:
        CannotWork: the wheel is damaged, or holds what none needs, as for a source archive.
    """
    kept, taken = WANTED if wanted is None else wanted, dict[str, str]()
    try:
        with zipfile.ZipFile(archive) as wheel:
            for member in wheel.infolist():
                path = inside(member.filename)
                if is_wanted(path, kept):
                    taken[str(path)] = _write(wheel, member, into / path)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        why = " ".join(str(error).split())
        raise CannotWork(f"the wheel is damaged: {why}") from error
    return taken


def _write(wheel: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> str:
    kind = stat.S_IFMT(member.external_attr >> 16)
    if member.is_dir() or kind not in (0, stat.S_IFREG):
        raise CannotWork(f"the wheel has {member.filename!r} as something else than a file")
    with wheel.open(member) as source:
        return keep(source, member.filename, member.file_size, path)
