"""That a worker has been told to leave: by a signal, by its parent, or by its parent's end."""

import signal
from collections.abc import Callable
from types import FrameType

from .errors import signal_name

_STATUS_OF_A_SIGNAL = 128


class Leave(SystemExit):
    """Raised, once, wherever the worker's main thread stands when SIGTERM or SIGINT comes."""


class Leaving:
    """Whether to leave, and why. What waits must be woken: give `on_leave` what does it.

    The exception alone would not do: raised in a destructor, it would be lost.
    """

    def __init__(self) -> None:
        self.why = ""
        self.status = 0
        self._wake: list[Callable[[], None]] = []

    @property
    def asked(self) -> bool:
        """Whether the worker is to leave."""
        return bool(self.why)

    def on_leave(self, wake: Callable[[], None]) -> None:
        """Call this when the worker is told to leave, or now if it has been."""
        self._wake.append(wake)
        if self.why:
            wake()

    def ask(self, why: str, status: int = 0) -> bool:
        """Tell it (any thread); False if it has been told."""
        if self.why:
            return False
        self.why, self.status = why, status
        for wake in list(self._wake):
            wake()
        return True

    def obey_signals(self) -> None:
        """SIGTERM and SIGINT raise `Leave` once; a second one changes nothing."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told)

    def _told(self, number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        status = _STATUS_OF_A_SIGNAL + number
        self.ask(signal_name(number), status)
        raise Leave(status)
