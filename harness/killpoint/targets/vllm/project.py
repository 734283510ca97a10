"""A published project that has such a queue: its name, its files, and where they come from."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

from killpoint.targets.vllm.sources import Sources


class Project(msgspec.Struct, frozen=True):
    """What the steps from a release's name to its files must know of a project."""

    name: str
    """On the package index, of its import package, and before ``==`` and ``@``."""
    sources: type[Sources]
    """How its files are read."""
    wanted: frozenset[PurePosixPath] | None = None
    """What is kept of a release: folders, whose own files are all kept, and single files.
    None: what is kept of vLLM."""
    wheels: bool = False
    """Whether a wheel will do where there is no source archive."""
    roots: tuple[str, ...] = ("",)
    """Folders of a checkout that may have the import package in them, the likeliest first."""

    def forms(self) -> str:
        """What a user may write, for people."""
        return f"{self.name}==X.Y.Z or {self.name}@PATH"


VLLM = Project("vllm", Sources)
