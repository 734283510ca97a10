"""A planted bug: a mistake that engineers made elsewhere, made in the reference on purpose."""

from __future__ import annotations

from dataclasses import dataclass

from mutant import Edit


@dataclass(frozen=True)
class PlantedBug:
    """A broken reference, after a bug that a real project has fixed."""

    name: str
    system: str
    """System whose users notice it: ``queue``, ``group``, ``pool``, ``pipe``, ``coordinator``,
    ``engine`` or ``server``."""
    edits: tuple[Edit, ...]
    breaks: tuple[str, ...]
    """Ids of the invariants that forbid what it does."""
    seen: str
    """What a user notices, and when."""
    fixed: str
    """The bug of the real project, in a sentence of our own."""
    link: str
    """Address of the issue or change that fixed it."""
