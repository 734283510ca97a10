"""The line of a target at which a traceback ends that one of its processes has written."""

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
"""The interpreter's own files, and this harness's."""
_SHOWN = 3
"""Parts of a path: enough to know the file by, and the same wherever it is installed."""


def last(complaints: Path) -> str:
    """``package/module.py:LINE`` of the last frame of the target's own; empty if there is none."""
    text = complaints.read_text("utf-8", "replace") if complaints.exists() else ""
    for path, line in reversed(_FRAME.findall(text)):
        others = path.startswith(_OTHERS) and "site-packages" not in path
        if not others and "/site-packages/msgspec/" not in path:
            return f"{'/'.join(Path(path).parts[-_SHOWN:])}:{line}"
    return ""
