"""A full TMPDIR: whoever keeps sockets, logs or caches there cannot add to them."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class FillTmp:
    """Fill the TMPDIR of a whole server, which is a tmpfs of the play's own then."""

    name = "fill-tmp"
    summary = "the TMPDIR of a whole server's play, a tmpfs of its own, is filled"
    ends = False

    def act(self, subject: Subject) -> None:
        """No role has one: such a story is refused before it is played."""
        subject.obey()
