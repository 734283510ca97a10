"""Cache of what killpoint has fetched or made once."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """The folder named by ``KILLPOINT_CACHE``, or ``killpoint`` in the user's cache."""
    chosen = os.environ.get("KILLPOINT_CACHE")
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "killpoint"
