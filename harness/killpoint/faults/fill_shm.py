"""A full /dev/shm: whoever has not reserved what it maps there dies of using it."""

from __future__ import annotations

from killpoint.faults.subject import Subject


class FillShm:
    """Fill the play's own /dev/shm to the last page."""

    name = "fill-shm"
    summary = "the play's own /dev/shm (`shm_bytes`) is filled"
    ends = False

    def act(self, subject: Subject) -> None:
        """Fill what this role sees."""
        subject.fill_shm()
