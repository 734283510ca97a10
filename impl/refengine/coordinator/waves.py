"""The wave protocol without I/O: the coordinator's half, a replica's, and a front end's.

The coordinator's half is the only place where waves begin.
"""

from .protocol import MAX_ENGINES, Counts, Report, Start, State

IDLE: Counts = (0, 0)


class CoordinatorWave:
    """Sans I/O: takes replicas' reports, arrivals and ends, and returns the messages to publish.

    `Start` goes to all replicas, `State` to all front ends, in the order returned. A start is
    repeated for each replica that asks for it: a start that was sent may not have been obeyed.
    """

    __slots__ = ("_late", "counts", "gone", "members", "refused", "running", "size", "wave")

    def __init__(self, engines: int) -> None:
        self.size = engines
        self.wave = 0
        self.running = False
        """True if the wave has begun and is not known to have ended."""
        self.members: tuple[int, ...] = ()
        """Ranks in the wave that began last."""
        self.counts: list[Counts] = [IDLE] * engines
        self.gone: frozenset[int] = frozenset()
        self.refused = 0
        """Number of parts of messages that were out of range and ignored (SPEC C4)."""
        self._late = False  # a replica wants the wave after this one

    def hear(self, report: Report) -> list[Start | State]:
        """Take a replica's report; parts of it that are out of range are ignored, and counted.

        A member of the wave that is on reports its end, though its rank was taken away meanwhile.
        """
        if not 0 <= report.rank < self.size:
            if not (self.running and report.rank in self.members):
                self.refused += 1
                return []
            report = Report(report.rank, done=report.done, broke=report.broke, lost=report.lost)
        if report.counts is not None and self._sensible(min(report.counts) >= 0):
            self.counts[report.rank] = report.counts
        before = self._summary()
        out: list[Start | State] = []
        if self._in_reach(report.broke, self.wave) and self._is_on(report.broke):
            out += self._broken(report.rank, report.lost)
        if self._in_reach(report.done, self.wave) and self._is_on(report.done):
            out += self._end()
        if self._in_reach(report.wants, self.wave + self.running) and report.wants is not None:
            out += self._wanted(report.rank, report.wants, report.work)
        return out + self._news(before)

    def arrived(self, rank: int) -> list[Start | State]:
        """Take a replica's subscription, and repeat what it cannot have received before."""
        if not self._sensible(0 <= rank < self.size):
            return []
        before = self._summary()
        back = rank in self.gone
        self.gone -= {rank}
        out: list[Start | State] = []
        if self.running and rank in self.members and not back:
            out.append(self._start())
        elif self._late and not self.running:
            out += self._begin()
        return out + self._news(before)

    def left(self, rank: int) -> list[Start | State]:
        """Take a replica's end: its wave is broken, and the others begin the next one."""
        before = self._summary()
        there = set(range(self.size)) | set(self.members if self.running else ())
        return self._leave({rank} & there) + self._news(before)

    def scale(self, engines: int) -> list[Start | State]:
        """Set the number of replicas from the next wave on: those with the lowest ranks."""
        if not self._sensible(1 <= engines <= MAX_ENGINES):
            return []
        self.counts = [*self.counts, *[IDLE] * (engines - self.size)][:engines]
        self.gone = frozenset(rank for rank in self.gone if rank < engines)
        self.size = engines
        return [self._state(whole=True)]

    def state(self) -> State:
        """Return the whole state, for a front end that has just subscribed or a due publication."""
        return self._state(whole=True)

    def _wanted(self, rank: int, wave: int, work: bool) -> list[Start | State]:
        if wave > self.wave:  # it was in the wave before, so that one has ended
            self._late |= work
            return self._end()
        if rank in self.gone or (self.running and rank not in self.members):
            self._late |= work
            return []
        if self.running:
            return [self._start()]
        return self._begin() if work else []

    def _broken(self, witness: int, lost: tuple[int, ...]) -> list[Start | State]:
        could = {*range(self.size), *self.members} - {witness}
        there = {rank for rank in lost if self._sensible(rank in could)}
        self._late = True  # there was a reason for this wave
        return self._leave(there) if there - self.gone else self._end()

    def _leave(self, ranks: set[int]) -> list[Start | State]:
        new = ranks - self.gone
        missed = {rank for rank in new if rank < self.size}  # of a rank taken away none is missed
        self.gone |= missed
        for rank in missed:
            self.counts[rank] = IDLE
        if not self.running or not new & set(self.members):
            return []
        self._late = True
        return self._end()

    def _begin(self) -> list[Start | State]:
        members = tuple(rank for rank in range(self.size) if rank not in self.gone)
        if not members:
            return []
        self.running, self._late, self.members = True, False, members
        return [self._start()]

    def _end(self) -> list[Start | State]:
        self.wave, self.running = self.wave + 1, False
        return self._begin() if self._late else []

    def _start(self) -> Start:
        return Start(self.wave, self.members)

    def _summary(self) -> tuple[int, bool, frozenset[int]]:
        return self.wave, self.running, self.gone

    def _news(self, before: tuple[int, bool, frozenset[int]]) -> list[State]:
        now = self._summary()
        return [] if now == before else [self._state(whole=now[2] != before[2])]

    def _state(self, *, whole: bool) -> State:
        counts: tuple[Counts | None, ...] | None = None
        if whole:
            counts = tuple(None if r in self.gone else c for r, c in enumerate(self.counts))
        return State(self.wave, self.running, counts)

    def _is_on(self, wave: int | None) -> bool:
        return self.running and wave == self.wave

    def _in_reach(self, wave: int | None, most: int) -> bool:
        """Return whether the wave is at most one ahead (SPEC C1); one behind is a late join."""
        return wave is None or self._sensible(0 <= wave <= most)

    def _sensible(self, well: bool) -> bool:
        self.refused += not well
        return well


class EngineWave:
    """A replica's half, sans I/O: takes events, and returns the reports to send.

    While `running` the engine loop does a step (with or without a batch), gives `unfinished > 0`
    to the all-reduce, and calls `agreed` with its result.
    """

    __slots__ = ("_asked", "_next", "held", "members", "rank", "running", "unfinished", "wave")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.wave = 0
        """Wave that it is in, or that it would be in next."""
        self.running = False
        self.members: tuple[int, ...] = ()
        self.held = False
        self.unfinished = 0
        self._asked = False  # its work for this wave has been reported
        self._next: Start | None = None  # received while in an earlier wave

    def accepted(self) -> list[Report]:
        """Count a request that has arrived."""
        self.unfinished += 1
        if self.running or self.held or self._asked:
            return []
        return self._want()

    def finished(self, requests: int = 1) -> None:
        """Count requests that have ended, in whichever way."""
        if requests > self.unfinished:
            raise ValueError(f"{requests} of {self.unfinished} requests have ended")
        self.unfinished -= requests

    def hear(self, start: Start) -> list[Report]:
        """Take a start, which may be repeated.

        A start of a wave that has ended here was delayed on its way, and is ignored. A held
        replica obeys no start, and asks once it is released.
        """
        if self.held and not self.running:
            return []
        if self.running and start.wave > self.wave:
            self._next = start
        elif not self.running and start.wave >= self.wave and self.rank in start.members:
            self._begin(start)
        return []

    def agreed(self, anyone_unfinished: bool) -> list[Report]:
        """Take the result of a step's all-reduce."""
        if anyone_unfinished:
            return []
        return self._ended(done=self.wave if self.rank == self.members[0] else None)

    def broken(self, lost: tuple[int, ...] = ()) -> list[Report]:
        """End the wave because its all-reduce failed for want of these ranks' votes."""
        return self._ended(broke=self.wave, lost=lost)

    def hold(self) -> None:
        """Join no wave until `release` (e.g. for new weights). A running wave ends first."""
        self.held = True

    def release(self) -> list[Report]:
        """Allow waves again, and ask for the one that may have begun meanwhile."""
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
        start, self._next = self._next, None
        if start is not None and not self.held and self.rank in start.members:
            self._begin(start)
        wants = self.unfinished > 0 and not (self.running or self.held)
        self._asked = wants
        if not wants and done is None and broke is None:
            return []
        return [Report(self.rank, self.wave if wants else None, wants, done, broke, lost)]

    def _want(self) -> list[Report]:
        self._asked = self.unfinished > 0
        return [Report(self.rank, self.wave, self._asked)]


class FrontEndWave:
    """A front end's half, sans I/O: the state of the replicas that was published last.

    It sends nothing: only replicas ask for waves.
    """

    __slots__ = ("counts", "running", "wave")

    def __init__(self) -> None:
        self.wave = 0
        self.running = False
        self.counts: tuple[Counts | None, ...] = ()

    def hear(self, state: State) -> None:
        """Take a published state. Waves only go forward: an older state is ignored."""
        if (state.wave, state.running) < (self.wave, self.running):
            return
        self.wave, self.running = state.wave, state.running
        if state.counts is not None:
            self.counts = state.counts
