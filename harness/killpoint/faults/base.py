"""Interfaces of fault injection: the role that a fault acts on, and the fault itself."""

from __future__ import annotations

from typing import Protocol


class FaultTarget(Protocol):
    """Role that a fault acts on."""

    pid: int
    at_point: bool
    """True if the role stands at a point and waits for a release."""
    held: bool
    """True if the role stands there by a hold, which does not stop the process."""
    hours: float
    """Hours by which its wall clock is to jump."""

    def has_stopped(self) -> None:
        """Wait until the process, which has sent SIGSTOP to itself, is seen stopped."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to exactly this process."""
        ...

    def release(self, action: str) -> None:
        """Release the role from its point by action: go, raise, interrupt, exit, jump HOURS."""
        ...

    def inject_in_role(self) -> None:
        """Have the role inject the fault in itself between two operations."""
        ...

    def apply_to_connections(self, fault: str) -> None:
        """Have the relay, or the keeper of the role's link, apply the fault to its connections."""
        ...

    def fill_shm(self) -> None:
        """Fill the /dev/shm that the role sees; BadUsage if that is the machine's own."""
        ...


class FaultKind(Protocol):
    """A kind of fault."""

    name: str
    summary: str
    """One line for ``killpoint list faults``."""
    ends: bool
    """True if the process is expected to die of the fault; then it struck only if it did."""

    def act(self, target: FaultTarget) -> None:
        """Inject the fault."""
        ...
