"""A replica's half of the wave protocol: when it steps, and what it says of that."""

from .messages import Report, Start


class EngineWave:
    """Sans I/O: takes what happens, and returns reports to be sent.

    While `running` the engine loop does a step (with or without a batch), gives `unfinished > 0`
    to the all-reduce, and calls `agreed` with what that said.
    """

    __slots__ = ("_asked", "_next", "held", "members", "rank", "running", "unfinished", "wave")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.wave = 0
        """The wave that it is in, or that it would be in next."""
        self.running = False
        self.members: tuple[int, ...] = ()
        self.held = False
        self.unfinished = 0
        self._asked = False  # that it has work for this wave was said
        self._next: Start | None = None  # told while it was in an earlier wave

    def accepted(self) -> list[Report]:
        """A request has come."""
        self.unfinished += 1
        if self.running or self.held or self._asked:
            return []
        return self._want()

    def finished(self, requests: int = 1) -> None:
        """Requests have ended, one way or another."""
        if requests > self.unfinished:
            raise ValueError(f"{requests} of {self.unfinished} requests have ended")
        self.unfinished -= requests

    def hear(self, start: Start) -> list[Report]:
        """The coordinator has begun a wave, or says again that it has.

        A wave that has ended here is over: what tells of it was long on its way. A held replica
        obeys no start, and asks once it is released.
        """
        if self.held and not self.running:
            return []
        if self.running and start.wave > self.wave:
            self._next = start
        elif not self.running and start.wave >= self.wave and self.rank in start.members:
            self._begin(start)
        return []

    def agreed(self, anyone_unfinished: bool) -> list[Report]:
        """The all-reduce of a step said so."""
        if anyone_unfinished:
            return []
        return self._ended(done=self.wave if self.rank == self.members[0] else None)

    def broken(self, lost: tuple[int, ...] = ()) -> list[Report]:
        """The all-reduce failed, for want of these ranks: this wave cannot go on."""
        return self._ended(broke=self.wave, lost=lost)

    def hold(self) -> None:
        """No further wave until `release`, if new weights come, say. One that is on ends first."""
        self.held = True

    def release(self) -> list[Report]:
        """It may step again, and asks what it has missed."""
        if not self.held:
            return []
        self.held = False
        return [] if self.running else self._want()

    def _begin(self, start: Start) -> None:
        self.wave, self.members = start.wave, start.members
        self.running, self._asked, self._next = True, False, None

    def _ended(
        self, done: int | None = None, broke: int | None = None, lost: tuple[int, ...] = ()
    ) -> list[Report]:
        self.running = False
        self.wave += 1
        told, self._next = self._next, None
        if told is not None and not self.held and self.rank in told.members:
            self._begin(told)
        wants = self.unfinished > 0 and not (self.running or self.held)
        self._asked = wants
        if not wants and done is None and broke is None:
            return []
        return [Report(self.rank, self.wave if wants else None, wants, done, broke, lost)]

    def _want(self) -> list[Report]:
        self._asked = self.unfinished > 0
        return [Report(self.rank, self.wave, self._asked)]
