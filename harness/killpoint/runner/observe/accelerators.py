"""The machine's GPUs as its driver reports them: their presence, and the memory in use."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

_ASK = ("nvidia-smi", "--query-gpu=uuid,memory.used", "--format=csv,noheader,nounits")
_ANSWERS_WITHIN = 20.0
_LOOKS_EVERY = 0.2
KEPT = 64 << 20
"""Bytes that a driver may keep of freed memory."""


def present() -> bool:
    """Return whether there is a GPU that processes here may use."""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not hidden and any(Path("/dev").glob("nvidia[0-9]*"))


def used() -> dict[str, int]:
    """Return the bytes in use, by device; empty if no driver answers."""
    try:
        said = subprocess.run(
            _ASK, capture_output=True, text=True, timeout=_ANSWERS_WITHIN, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = [line.split(",") for line in said.stdout.splitlines() if "," in line]
    mine = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    found = {name.strip(): int(mib) << 20 for name, mib in lines if mib.strip().isdigit()}
    return {name: count for name, count in found.items() if "GPU-" not in mine or name in mine}


def kept(before: dict[str, int], within: float) -> int:
    """Return the bytes still in use after so many seconds, beyond those before, on any device."""
    end = time.monotonic() + within
    while True:
        now = used()
        grown = max((now.get(name, 0) - count for name, count in before.items()), default=0)
        if grown <= KEPT or time.monotonic() >= end:
            return grown if grown > KEPT else 0
        time.sleep(_LOOKS_EVERY)
