"""Capability ``waves``: the wave protocol's parties as pure state machines, without sockets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, Protocol, runtime_checkable

Audience = Literal["coordinator", "engines", "front-ends"]
Sent = Sequence[tuple[Audience, Hashable]]
"""Messages that a party sends, in order, each with its audience. Messages are compared and hashed,
and people read their repr."""


class ProtocolParty(Protocol):
    """Party of the protocol. Equal states and inputs give equal states and outputs."""

    @property
    def wave(self) -> int:
        """Wave that it is in, or that it would be in next."""
        ...

    @property
    def running(self) -> bool:
        """True if it steps, or believes that the replicas do."""
        ...

    def save(self) -> Hashable:
        """Return its whole state."""
        ...

    def restore(self, saved: Hashable) -> None:
        """Go back to a state that was saved, by this or an equal party."""
        ...

    def hear(self, sender: str, message: Hashable) -> Sent:
        """Handle a message; the sender is ``coordinator``, ``engine-0``, ``front-end-0``."""
        ...


class CoordinatorParty(ProtocolParty, Protocol):
    """The coordinator, between the other parties."""

    def arrived(self, who: str) -> Sent:
        """Handle an arrival: from now on the engine or front end gets what is sent to all."""
        ...

    def left(self, who: str) -> Sent:
        """Handle an engine's end. Called only where engines die."""
        ...


class EngineParty(ProtocolParty, Protocol):
    """A replica."""

    @property
    def members(self) -> Sequence[int]:
        """Ranks that step together in its wave; empty: all of them."""
        ...

    @property
    def unfinished(self) -> int:
        """Number of requests that it has accepted and that have not ended."""
        ...

    def accept(self) -> Sent:
        """Accept a request."""
        ...

    def step(self) -> bool:
        """Take one step while running, which ends one request if there is any.

        Returns its input to the all-reduce: whether it has unfinished requests.
        """
        ...

    def agreed(self, anyone_unfinished: bool) -> Sent:
        """Handle the result of the all-reduce."""
        ...

    def broken(self, lost: Sequence[int]) -> Sent:
        """Handle a failure of the all-reduce, for want of these. Called only where engines die."""
        ...

    def hold(self) -> Sent:
        """Begin no wave until released, for a reason outside the protocol."""
        ...

    def release(self) -> Sent:
        """End the hold: it may step again."""
        ...


class Parties(Protocol):
    """All parties, none of which has heard of another."""

    @property
    def coordinator(self) -> CoordinatorParty:
        """The coordinator."""
        ...

    @property
    def engines(self) -> Sequence[EngineParty]:
        """Engines by rank."""
        ...

    @property
    def front_ends(self) -> Sequence[ProtocolParty]:
        """Front ends by number."""
        ...


@runtime_checkable
class HasWaves(Protocol):
    """Capability ``waves``."""

    def wave_parties(self, engines: int, front_ends: int) -> Parties:
        """Make fresh parties."""
        ...
