"""Processes below one, as tests wait for them and look for them."""

from __future__ import annotations

import time
from pathlib import Path

from killpoint.inspection.processes import tree


def once_one_is_stopped(root: int) -> list[int]:
    """The processes below this one, when one of them has been stopped."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        below = [each for each in tree(root) if each.pid != root]
        if any(each.state == "T" for each in below):
            return [each.pid for each in below]
        time.sleep(0.05)
    raise AssertionError("no process was stopped within 60 s")


def are_there(pids: list[int]) -> list[int]:
    """Those of these processes that there are."""
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]
