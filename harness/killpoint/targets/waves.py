"""Capability ``waves``: the wave protocol's parties as pure state machines, without sockets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, Protocol, runtime_checkable

Audience = Literal["coordinator", "engines", "front-ends"]
Sent = Sequence[tuple[Audience, Hashable]]
"""What a party sends, in order, and to whom. Messages are compared and hashed, and their repr is
read by people."""


class Party(Protocol):
    """One party. The same state and the same input give the same state and the same output."""

    @property
    def wave(self) -> int:
        """The wave that it is in, or that it would be in next."""
        ...

    @property
    def running(self) -> bool:
        """Whether it steps, or believes that the replicas do."""
        ...

    def save(self) -> Hashable:
        """Its whole state."""
        ...

    def restore(self, saved: Hashable) -> None:
        """Back to a state that was saved, by this or an equal party."""
        ...

    def hear(self, sender: str, message: Hashable) -> Sent:
        """A message has come; the sender is ``coordinator``, ``engine-0``, ``front-end-0``."""
        ...


class CoordinatorParty(Party, Protocol):
    """The one between the others."""

    def arrived(self, who: str) -> Sent:
        """From now on this engine or front end hears what is sent to all; before, it did not."""
        ...

    def left(self, who: str) -> Sent:
        """This engine is gone. Asked only where engines die."""
        ...


class EngineParty(Party, Protocol):
    """A replica."""

    @property
    def members(self) -> Sequence[int]:
        """The ranks that step together in its wave; empty: all of them."""
        ...

    @property
    def unfinished(self) -> int:
        """Requests that it has accepted and that have not ended."""
        ...

    def accept(self) -> Sent:
        """A request has come."""
        ...

    def step(self) -> bool:
        """While running: one step, which ends one request if there is any.

        Returns what it gives to the all-reduce: whether it has unfinished requests.
        """
        ...

    def agreed(self, anyone_unfinished: bool) -> Sent:
        """What the all-reduce said."""
        ...

    def broken(self, lost: Sequence[int]) -> Sent:
        """The all-reduce failed for want of these. Asked only where engines die."""
        ...

    def hold(self) -> Sent:
        """It is to begin no wave until released, for another reason than the protocol's."""
        ...

    def release(self) -> Sent:
        """It may step again."""
        ...


class Parties(Protocol):
    """All of them, none of which has heard of another."""

    @property
    def coordinator(self) -> CoordinatorParty:
        """The coordinator."""
        ...

    @property
    def engines(self) -> Sequence[EngineParty]:
        """By rank."""
        ...

    @property
    def front_ends(self) -> Sequence[Party]:
        """By number."""
        ...


@runtime_checkable
class HasWaves(Protocol):
    """Capability ``waves``."""

    def wave_parties(self, engines: int, front_ends: int) -> Parties:
        """Fresh ones."""
        ...
