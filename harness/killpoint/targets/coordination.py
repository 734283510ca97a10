"""Capability ``coordinator``: a data-parallel coordinator among peers that the harness plays."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import msgspec


class Started(msgspec.Struct, frozen=True):
    """The coordinator told all engines that listen that a wave is on."""

    wave: int
    excluded: int | None = None
    """An engine that is not meant."""
    members: tuple[int, ...] | None = None
    """The engines that are meant, where it says so."""


class Published(msgspec.Struct, frozen=True):
    """The coordinator told all front ends."""

    wave: int
    running: bool
    counts: tuple[tuple[int, int] | None, ...] | None = None
    """By rank, requests that wait and that run; None for an engine that is gone. None for all:
    they are as they were, or were not understood."""


class Coordinating(Protocol):
    """One coordinator, whose sockets and clock are simulated: it goes on when told to.

    What is said to it is heard before the call returns, as is whatever it says at once.
    """

    front_ends_wake: bool
    """Whether a front end that believes all engines idle tells it of a request. Where not, the
    engine that has the request does."""

    def arrive(self, engine: int) -> None:
        """An engine begins to listen."""
        ...

    def wake(self, engine: int, wave: int) -> None:
        """A front end in this wave has sent a request to an engine."""
        ...

    def want(self, engine: int, wave: int) -> None:
        """An idle engine has a request for this wave, and no front end has told of it."""
        ...

    def elapse(self, seconds: float) -> None:
        """Time passes."""
        ...

    def said(self) -> list[Started | Published]:
        """Everything that it has said since the last call, in order."""
        ...


@runtime_checkable
class HasCoordinator(Protocol):
    """Capability ``coordinator``."""

    def coordinate(self, engines: int) -> AbstractContextManager[Coordinating]:
        """A fresh coordinator of so many engines, none of which listens yet."""
        ...
