"""SIGTERM ends a long command as Ctrl-C does: what was started is ended, and nothing is left."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def ending_on_sigterm() -> Generator[None]:
    """Let SIGTERM raise ``SystemExit`` (143) in the main thread, until the context is left.

    Other threads cannot choose what a signal does: for them it changes nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _leave(number: int, _frame: object) -> None:
    sys.exit(128 + number)
