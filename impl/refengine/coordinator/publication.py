"""When front ends are told: soon after a change whatever else happens, and now and then anyway."""


class Publication:
    """Sans I/O, in monotonic seconds (SPEC C5, C7).

    The first change since the last publication decides. Further ones, or a flood of messages that
    change nothing, put nothing off.
    """

    def __init__(self, now: float, interval: float, idle: float) -> None:
        self._interval, self._idle = interval, idle
        self.due = now + interval
        """When to publish next."""

    def changed(self, now: float) -> None:
        """There is something to tell."""
        self.due = min(self.due, now + self._interval)

    def published(self, now: float) -> None:
        """All has been told."""
        self.due = now + self._idle
