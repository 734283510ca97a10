"""An event that is set once, and can be waited for without a lock."""

import select

from ..cancel import CancelToken


class OneShotEvent(CancelToken):
    """Set from any thread. An exception from outside leaves nothing held by a waiter (SPEC R9)."""

    def wait(self, seconds: float | None) -> bool:
        """Wait at most that long; return whether the event is set."""
        if self.is_set():
            return True
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        poller.poll(None if seconds is None else max(0.0, seconds) * 1000)
        return self.is_set()
