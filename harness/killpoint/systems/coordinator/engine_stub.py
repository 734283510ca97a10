"""An engine as roles play it: its current wave, and the requests that have been in one."""

from __future__ import annotations

from killpoint.targets.coordinator_messages import Started
from killpoint.targets.coordinator_protocol import Saying


class Stepping:
    """Sans-I/O state of an engine, where a request counts as stepped once it is in a wave.

    A start of a later wave ends the one that it is in: in a real engine the all-reduce fails.
    """

    def __init__(self, rank: int, *, begins: bool) -> None:
        """``begins``: whether it is in a wave as soon as it wants it."""
        self.rank = rank
        self.wave = 0
        """Number of the wave that it is in, or that it would be in next."""
        self.running = False
        self.members: tuple[int, ...] | None = None
        """Ranks in that wave, where they were reported."""
        self.waits: list[int] = []
        """Numbers of requests that have been in no wave."""
        self._begins = begins

    def accept(self, number: int) -> Saying | None:
        """Accept a request; return the message to send for it, if any."""
        self.waits.append(number)
        if self.running:
            return None
        self.running = self._begins
        return Saying(wants=self.wave)

    def stepped(self) -> list[int]:
        """Return the requests that have come to be in a wave since the last call."""
        if not self.running:
            return []
        out, self.waits = self.waits, []
        return out

    def hear(self, start: Started) -> None:
        """Process the start of a wave."""
        members, rank = start.members, self.rank
        meant = rank != start.excluded if members is None else rank in members
        if meant and start.wave >= self.wave:
            self.wave, self.running, self.members = start.wave, True, members

    def end(self, *, says: bool) -> Saying | None:
        """End the wave, in which nothing is left to do; return the message to send, if any."""
        if not self.running:
            return None
        self.running = False
        self.wave += 1
        return Saying(done=self.wave - 1) if says else None

    def broken(self, lost: tuple[int, ...]) -> Saying | None:
        """End the wave by a failed all-reduce, with work left to do; return the message, if any."""
        if not self.running:
            return None
        self.running = False
        self.wave += 1
        return Saying(broke=self.wave - 1, lost=lost, wants=self.wave)
