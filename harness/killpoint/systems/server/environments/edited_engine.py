"""An engine with findings switched off: edited files that its processes import."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import msgspec

from killpoint.cache import cache_root
from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.vllm.switch_offs import known
from killpoint.targets.vllm.switch_offs.servers import edited_files, switchable

IMPORTS = Path(__file__).with_name("edited_imports")
"""Folder that goes first on the path of an engine."""


class EditedEngine(msgspec.Struct, frozen=True):
    """Edited files that an engine's processes import in the place of its own."""

    folder: Path
    """Folder of the edited files, and of the list of the module that each replaces."""
    notes: tuple[str, ...]
    """Lines for the card: the findings that are switched off, and those that no edit fits here."""

    def variables(self) -> dict[str, str]:
        """Return the variables of a play that name the folder; :data:`IMPORTS` is on the path."""
        return {"KILLPOINT_EDITED": str(self.folder)}


def edited_engine(package: Path, off: Sequence[str]) -> EditedEngine:
    """Return the files of an engine with these findings switched off, kept in the cache.

    Args:
        package: the folder of the package ``vllm``.

    Raises:
        BadUsage: one has no switch-off, or none fits a file of this engine.
        CannotWork: a file of the engine cannot be read, or the cache cannot be written.
    """
    known(off, switchable())
    try:
        files, absent = edited_files(off, lambda file: _read(package, file))
        there = [id for id in off if id not in absent]
        if not there:
            raise BadUsage(f"{package}: no edit of {', '.join(off)} fits this release")
        folder = _kept(files)
    except OSError as error:
        raise CannotWork(f"switch-offs of {package}: {error}") from error
    told = [f"switched off, by edits as the code was imported: {', '.join(there)}"]
    told += [f"not switched off, since no edit fits: {', '.join(absent)}"] * bool(absent)
    return EditedEngine(folder, tuple(told))


def fitting_in(package: Path) -> list[str]:
    """Return the findings whose edit fits a file of this engine.

    Raises:
        CannotWork: a file of the engine cannot be read.
    """
    try:
        return [
            id
            for id in switchable()
            if not edited_files([id], lambda file: _read(package, file))[1]
        ]
    except OSError as error:
        raise CannotWork(f"switch-offs of {package}: {error}") from error


def _read(package: Path, file: PurePosixPath) -> bytes | None:
    path = package / file
    return path.read_bytes() if path.is_file() else None


def _kept(files: dict[PurePosixPath, bytes]) -> Path:
    """Return a folder of these files, named by their digest: one that exists is the same."""
    digest = hashlib.sha256()
    for file, content in sorted(files.items()):
        digest.update(f"{file}\0{len(content)}\0".encode() + content)
    folder = cache_root() / "edited" / digest.hexdigest()[:24]
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix="new-"))
    try:
        for number, content in enumerate(files.values()):
            (new / f"{number}.py").write_bytes(content)
        modules = {_module(file): f"{number}.py" for number, file in enumerate(files)}
        (new / "modules.json").write_text(json.dumps(modules), "utf-8")
        new.chmod(0o755)
        try:
            new.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder


def _module(file: PurePosixPath) -> str:
    """Return the name by which a file of the package is imported."""
    return ".".join(("vllm", *file.with_suffix("").parts))
