"""Faults of the resources that a role uses: descriptors, shared memory, its clock."""

from __future__ import annotations

from killpoint.errors import BadUsage
from killpoint.faults.base import FaultTarget


class JumpClock:
    """Move one role's ``time.time`` by ``hours``, at a point or between two operations."""

    name = "jump-clock"
    summary = "the role's time.time() jumps by some hours, back or forth"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the role move its clock where it is."""
        if target.at_point:
            target.release(f"jump {target.hours}")
        else:
            target.inject_in_role()


class Starve:
    """Lower the role's limit of open files to those open now and ``spare`` more."""

    name = "starve"
    summary = "a limit of descriptors at what is open now and `spare` more"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the role limit itself."""
        target.inject_in_role()


class FillShm:
    """Fill the play's own /dev/shm to the last page."""

    name = "fill-shm"
    summary = "the play's own /dev/shm (`shm_bytes`) is filled"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Fill the /dev/shm that this role sees."""
        target.fill_shm()


class FillTmp:
    """Fill the TMPDIR of a whole server, a tmpfs of the play's own."""

    name = "fill-tmp"
    summary = "the TMPDIR of a whole server's play, a tmpfs of its own, is filled"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Refuse the fault, since no role has a TMPDIR of its own.

        Raises:
            BadUsage: always; the runner of server scenarios applies this fault itself.
        """
        raise BadUsage("fault fill-tmp is done to whole servers alone")
