"""What a process weighs: its resident and its proportional memory, from the kernel's tables."""

from __future__ import annotations

import re
from pathlib import Path

_LINE = re.compile(r"^(Rss|Pss):\s+(\d+) kB$", re.MULTILINE)


def weight(pid: int) -> dict[str, int]:
    """``rss`` and ``pss`` in bytes; empty if the process is gone.

    ``pss`` counts a page that n processes share as one n-th of it: what a fork still shares with
    its parent weighs little, and what it writes weighs whole.
    """
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return {}
    return {name.lower(): int(size) * 1024 for name, size in _LINE.findall(text)}
