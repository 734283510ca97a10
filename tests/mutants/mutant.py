"""What a mutant is: a few replacements in the reference, and the case that must catch it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One replacement in a file of ``impl/refengine``."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A broken reference."""

    name: str
    caught_by: str
    kinds: tuple[str, ...]
    """Kinds of violation that are a right answer."""
    edits: tuple[Edit, ...]
    samples: int = 1
    """How many samples of a sampled sweep it may take: which lines a handshake comes to differs.

    Or how many plays where a busy machine may have carried all away before it was dropped.
    """

    @property
    def invariant(self) -> str:
        """What it breaks."""
        return self.caught_by.split("/")[0]


def one(name: str, caught_by: str, kinds: str, file: str, old: str, new: str) -> Mutant:
    """A mutant of a single edit."""
    return Mutant(name, caught_by, tuple(kinds.split()), (Edit(file, old, new),))
