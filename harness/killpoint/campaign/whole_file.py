"""A file of a campaign's folder that is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write the file; when this returns, it outlasts the machine's end."""
    beside = path.with_name(f".{path.name}")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
