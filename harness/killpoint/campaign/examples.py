"""Hypothesis' examples of a case: a folder each, so that no case gets another's choices."""

from __future__ import annotations

import re
from pathlib import Path


def folder_of(root: Path, case: str) -> Path:
    """Return the folder of a case's examples, in a campaign's ``examples`` folder."""
    return root / re.sub(r"[^\w.-]+", "-", case)


def pack(folder: Path) -> dict[str, bytes]:
    """Return every example in a folder, by its path there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def unpack(examples: dict[str, bytes], folder: Path) -> None:
    """Put examples into a folder, beside what is there."""
    for name, content in examples.items():
        path = folder / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
