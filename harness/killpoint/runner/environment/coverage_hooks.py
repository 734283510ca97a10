"""What coverage has seen of a process is saved before the process may be killed.

Does nothing where no coverage is measured: then nothing of it is even imported.
"""

from __future__ import annotations

import contextlib
import sys


def save_coverage() -> None:
    """Write down what was seen so far; whoever is killed afterwards has lost nothing."""
    if "coverage" not in sys.modules:
        return
    from coverage import Coverage

    measured = Coverage.current()
    if measured is not None:
        with contextlib.suppress(Exception):  # a starved role: figures are lost, and no verdict
            measured.save()
