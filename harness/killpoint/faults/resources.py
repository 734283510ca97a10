"""Faults of what a role uses: descriptors, shared memory, its clock."""

from __future__ import annotations

from killpoint.errors import BadUsage
from killpoint.faults.base import FaultTarget


class JumpClock:
    """``time.time`` of one role moves by ``hours``, at a point or between two operations."""

    name = "jump-clock"
    summary = "the role's time.time() jumps by some hours, back or forth"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Tell the role to move its clock where it is."""
        if target.at_point:
            target.release(f"jump {target.hours}")
        else:
            target.inject_in_role()


class Starve:
    """Lower the role's limit of open files to what it has open and ``spare`` more."""

    name = "starve"
    summary = "a limit of descriptors at what is open now and `spare` more"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Tell the role to limit itself."""
        target.inject_in_role()


class FillShm:
    """Fill the play's own /dev/shm to the last page."""

    name = "fill-shm"
    summary = "the play's own /dev/shm (`shm_bytes`) is filled"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Fill what this role sees."""
        target.fill_shm()


class FillTmp:
    """Fill the TMPDIR of a whole server, which is a tmpfs of the play's own then."""

    name = "fill-tmp"
    summary = "the TMPDIR of a whole server's play, a tmpfs of its own, is filled"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """No role has one.

        Raises:
            BadUsage: always; who plays servers does it.
        """
        raise BadUsage("fault fill-tmp is done to whole servers alone")
