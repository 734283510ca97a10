"""Saving of a process's coverage before the process may be killed.

Does nothing, and imports nothing, where no coverage is measured.
"""

from __future__ import annotations

import contextlib
import sys


def save_coverage() -> None:
    """Write the coverage so far, so that a later kill loses nothing."""
    if "coverage" not in sys.modules:
        return
    from coverage import Coverage

    measured = Coverage.current()
    if measured is not None:
        with contextlib.suppress(Exception):  # a starved role: figures are lost, and no verdict
            measured.save()
