"""Capability ``coordinator``: a data-parallel coordinator among peers that the harness plays."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import msgspec


class Started(msgspec.Struct, frozen=True):
    """The coordinator told all engines that listen that a wave is on."""

    wave: int
    excluded: int | None = None
    """Rank of an engine that the start does not concern."""
    members: tuple[int, ...] | None = None
    """Ranks of the engines that the start concerns, where it says so."""


class Published(msgspec.Struct, frozen=True):
    """The coordinator told all front ends of its state."""

    wave: int
    running: bool
    counts: tuple[tuple[int, int] | None, ...] | None = None
    """By rank, requests that wait and that run; None for an engine that is gone. None for all: they
    are as they were, or were not understood."""


class Coordinating(Protocol):
    """A coordinator whose sockets and clock are simulated: it runs only inside these calls.

    A message to it is handled before the call returns, and so are its immediate replies.
    """

    front_ends_wake: bool
    """True if a front end that believes all engines idle tells the coordinator of a request; False
    if the engine that has the request does."""

    def arrive(self, engine: int) -> None:
        """An engine begins to listen."""
        ...

    def wake(self, engine: int, wave: int) -> None:
        """A front end in this wave has sent a request to an engine."""
        ...

    def want(self, engine: int, wave: int) -> None:
        """An idle engine has a request for this wave that no front end has reported."""
        ...

    def elapse(self, seconds: float) -> None:
        """Let simulated time pass."""
        ...

    def said(self) -> list[Started | Published]:
        """Return everything that it has sent since the last call, in order."""
        ...


@runtime_checkable
class HasCoordinator(Protocol):
    """Capability ``coordinator``."""

    def coordinate(self, engines: int) -> AbstractContextManager[Coordinating]:
        """Make a fresh coordinator of so many engines, none of which listens yet."""
        ...
