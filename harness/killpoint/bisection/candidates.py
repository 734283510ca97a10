"""Candidates of a search, in order, each of which can be had as a target for a while."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol


class Candidates(Protocol):
    """Candidates from the oldest to the newest: releases, or commits."""

    @property
    def unit(self) -> str:
        """Noun for one candidate: ``release``."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """Name of each candidate, for people; two at least."""
        ...

    def at(self, candidate: int) -> AbstractContextManager[str]:
        """A candidate as a target, written as after ``--target``, until it is left.

        Raises:
            CannotWork: it cannot be had.
        """
        ...
