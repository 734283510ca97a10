"""The line of a target at which the last traceback in a process's output ends."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import killpoint

_FRAME = re.compile(r'^\s+File "([^"<]+)", line (\d+), in ', re.MULTILINE)
_OTHERS = (
    *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")},
    *(str(Path(each)) for each in killpoint.__path__),
)
"""Folders of the interpreter's own files, and of this harness's."""
_SHOWN = 3
"""Parts of a path: enough to identify the file, and the same wherever it is installed."""


def last(complaints: Path) -> str:
    """Return ``package/module.py:LINE`` of the target's own last frame; empty if there is none."""
    text = complaints.read_text("utf-8", "replace") if complaints.exists() else ""
    for path, line in reversed(_FRAME.findall(text)):
        others = path.startswith(_OTHERS) and "site-packages" not in path
        if not others and "/site-packages/msgspec/" not in path:
            return f"{'/'.join(Path(path).parts[-_SHOWN:])}:{line}"
    return ""
