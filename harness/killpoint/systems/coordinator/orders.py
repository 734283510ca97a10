"""Exploration of the wave protocol: the number of parties, and of events."""

from __future__ import annotations

from typing import Annotated

import msgspec


class Orders(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The wave protocol in every order of its messages.

    Each engine and front end begins to listen to the coordinator at any time, and has missed what
    was sent before. A message may be in transit for any time; messages from one party to another
    arrive in the order they were sent.
    """

    engines: Annotated[int, msgspec.Meta(ge=1, le=8)] = 2
    front_ends: Annotated[int, msgspec.Meta(ge=0, le=8)] = 1
    requests: Annotated[int, msgspec.Meta(ge=0, le=16)] = 2
    """Most requests that arrive, each at any engine and any time."""
    holds: Annotated[int, msgspec.Meta(ge=0, le=8)] = 0
    """Number of times an engine is held and released; until then it obeys no start."""
    deaths: Annotated[int, msgspec.Meta(ge=0, le=4)] = 0
    """Number of engine deaths: the coordinator misses the engine at any time later, if it ever
    listened, and the peers in its all-reduce get an error, at any time as well."""
    moves: list[str] | None = None
    """The single order to play; None: all of them."""

    def __str__(self) -> str:
        """Return the text for reports."""
        held = f", {_some(self.holds, 'hold')}" if self.holds else ""
        held += f", {_some(self.deaths, 'death')}" if self.deaths else ""
        return (
            f"{_some(self.engines, 'engine')}, {_some(self.front_ends, 'front end')}, "
            f"{_some(self.requests, 'request')}{held}"
        )


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
