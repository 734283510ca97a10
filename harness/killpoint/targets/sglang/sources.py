"""The files of SGLang that are served unmodified, and their places."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import ClassVar

from killpoint.targets.vllm.project import Project
from killpoint.targets.vllm.sources import QUEUE, Sources

FOLDER = Path("sglang", "srt", "distributed", "device_communicators")
_NAMES = Path("sglang", "srt", "utils", "stale_shm_cleanup.py")
"""Module that names segments, in releases that name them; it imports nothing of SGLang's."""


class SglangSources(Sources, frozen=True):
    """One copy of SGLang, as far as it is needed."""

    folder: ClassVar[Path] = FOLDER

    def whole(self) -> bool:
        """Return True: a stored release has always had all files that are kept now."""
        return True

    def modules(self) -> dict[str, Path]:
        """Return the real files, by the module that each is served as."""
        files = (FOLDER / f"{QUEUE}.py", _NAMES)
        return {
            ".".join(file.with_suffix("").parts): self.root / file
            for file in files
            if (self.root / file).is_file()
        }


SGLANG = Project(
    "sglang",
    SglangSources,
    frozenset({PurePosixPath(FOLDER), PurePosixPath(_NAMES)}),
    wheels=True,
    roots=("python", ""),
)
