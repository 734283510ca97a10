"""What a fault is given to act on, and what it has to be."""

from __future__ import annotations

from typing import Protocol


class FaultTarget(Protocol):
    """A role as a fault sees it."""

    pid: int
    at_point: bool
    """Whether it stands at a point and waits for a release."""
    held: bool
    """Whether it stands there by a hold: it does not stop itself."""
    hours: float
    """How far its wall clock is to jump."""

    def has_stopped(self) -> None:
        """Wait until it is seen stopped by its own hand."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to exactly this process."""
        ...

    def release(self, action: str) -> None:
        """Let it go on from its point: go, raise, interrupt, exit, or jump HOURS."""
        ...

    def inject_in_role(self) -> None:
        """Have it do the fault to itself between two operations."""
        ...

    def apply_to_connections(self, fault: str) -> None:
        """Have the relay, or the keeper of its link, do the fault to its connections."""
        ...

    def fill_shm(self) -> None:
        """Fill the /dev/shm that it sees; BadUsage if that is the machine's own."""
        ...


class FaultKind(Protocol):
    """One way to harm a role."""

    name: str
    summary: str
    """One line for ``killpoint list faults``."""
    ends: bool
    """Whether the process is expected to die of it; then it struck only if it did."""

    def act(self, target: FaultTarget) -> None:
        """Do it."""
        ...
