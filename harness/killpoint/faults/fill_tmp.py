"""A full TMPDIR: whoever keeps sockets, logs or caches there cannot add to them."""

from __future__ import annotations

from killpoint.errors import BadUsage
from killpoint.faults.subject import Subject


class FillTmp:
    """Fill the TMPDIR of a whole server, which is a tmpfs of the play's own then."""

    name = "fill-tmp"
    summary = "the TMPDIR of a whole server's play, a tmpfs of its own, is filled"
    ends = False

    def act(self, subject: Subject) -> None:
        """No role has one.

        Raises:
            BadUsage: always; who plays servers does it.
        """
        raise BadUsage("fault fill-tmp is done to whole servers alone")
