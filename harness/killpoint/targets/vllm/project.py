"""A published project that has such a queue: its name, its files, and where they come from."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from killpoint.targets.vllm.sources import Sources


class Project(msgspec.Struct, frozen=True):
    """Facts about a project by which the files of a release are found."""

    name: str
    """Name on the package index, of its import package, and before ``==`` and ``@``."""
    sources: type[Sources]
    """Class that reads its files."""
    wanted: frozenset[PurePosixPath] | None = None
    """Files of a release that are kept: folders, whose own files are all kept, and single files.
    None: what is kept of vLLM."""
    wheels: bool = False
    """True if a wheel will do where there is no source archive."""
    roots: tuple[str, ...] = ("",)
    """Folders of a checkout that may have the import package in them, the likeliest first."""

    def forms(self) -> str:
        """Return the forms that a user may write."""
        return f"{self.name}==X.Y.Z or {self.name}@PATH"


VLLM = Project("vllm", Sources)
