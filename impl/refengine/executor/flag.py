"""A flag that is set once, and can be waited for without a lock."""

import select

from ..cancel import CancelToken


class Flag(CancelToken):
    """Set from any thread. A waiter that is struck by an exception leaves nothing held (R9)."""

    def wait(self, seconds: float | None) -> bool:
        """Whether it is set, at the latest that much later."""
        if self.is_set():
            return True
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        poller.poll(None if seconds is None else max(0.0, seconds) * 1000)
        return self.is_set()
