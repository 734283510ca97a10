"""What a fault is given to act on, and what it has to be."""

from __future__ import annotations

from typing import Protocol


class Subject(Protocol):
    """A role as a fault sees it."""

    pid: int
    at_point: bool
    """Whether it stands at a point and waits for a release."""

    def has_stopped(self) -> None:
        """Wait until it is seen stopped by its own hand."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to exactly this process."""
        ...

    def release(self, action: str) -> None:
        """Let it go on from its point: ``go``, ``raise`` or ``exit``."""
        ...

    def obey(self) -> None:
        """Have it do the fault to itself between two operations."""
        ...


class FaultKind(Protocol):
    """One way to harm a role."""

    name: str
    summary: str
    """One line for ``killpoint list faults``."""
    ends: bool
    """Whether the process is expected to die of it; then it struck only if it did."""

    def act(self, subject: Subject) -> None:
        """Do it."""
        ...
