"""The coordinator's half of the wave protocol: the one place where waves begin."""

from .messages import Counts, Report, Start, State

IDLE: Counts = (0, 0)
MOST_ENGINES = 4096


class CoordinatorWave:
    """Sans I/O: takes what replicas say and what becomes of them, and returns what to publish.

    `Start` goes to all replicas, `State` to all front ends, in the order given. A start is
    repeated for whoever wants it: that one was sent is no evidence that it was obeyed.
    """

    __slots__ = ("_late", "counts", "gone", "members", "refused", "running", "size", "wave")

    def __init__(self, engines: int) -> None:
        self.size = engines
        self.wave = 0
        self.running = False
        """Whether the wave has begun and is not known to have ended."""
        self.members: tuple[int, ...] = ()
        """Who is in the wave that has begun last."""
        self.counts: list[Counts] = [IDLE] * engines
        self.gone: frozenset[int] = frozenset()
        self.refused = 0
        """Parts of messages that made no sense and were left out (SPEC C4)."""
        self._late = False  # somebody wants the wave after this one

    def hear(self, report: Report) -> list[Start | State]:
        """A replica has said something; what of it is out of range is left out, and counted."""
        if not 0 <= report.rank < self.size:
            self.refused += 1
            return []
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
        """A replica listens from now on: it is told what it cannot have heard."""
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
        """A replica is gone. The wave that it was in is broken; the others begin the next one."""
        before = self._summary()
        return self._leave({rank} & set(range(self.size))) + self._news(before)

    def scale(self, engines: int) -> list[Start | State]:
        """From the next wave on there are so many replicas, those with the lowest ranks."""
        if not self._sensible(1 <= engines <= MOST_ENGINES):
            return []
        self.counts = [*self.counts, *[IDLE] * (engines - self.size)][:engines]
        self.gone = frozenset(rank for rank in self.gone if rank < engines)
        self.size = engines
        return [self._state(whole=True)]

    def state(self) -> State:
        """All there is to know, for a front end that has just come or at its time."""
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
        there = {rank for rank in lost if self._sensible(0 <= rank < self.size and rank != witness)}
        self._late = True  # there was a reason for this wave
        return self._leave(there) if there - self.gone else self._end()

    def _leave(self, ranks: set[int]) -> list[Start | State]:
        new = ranks - self.gone
        self.gone |= new
        for rank in new:
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
        """A replica is at most one wave ahead (SPEC C1); one that is behind has just come."""
        return wave is None or self._sensible(0 <= wave <= most)

    def _sensible(self, well: bool) -> bool:
        self.refused += not well
        return well
