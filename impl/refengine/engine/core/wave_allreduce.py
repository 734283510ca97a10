"""The all-reduce "has any replica unfinished requests?" over a wave (SPEC C3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..protocol import Vote

_MAX_EARLY_VOTES = 4  # of one rank, for later steps; a live one is one step ahead
StepId = tuple[int, int, int]
"""Era, wave, and step within the wave."""


@dataclass(frozen=True)
class Agreed:
    """Result of a step in which all have voted."""

    anyone: bool
    """True if any replica has unfinished requests."""
    regroup: bool
    """True if any saw a replica outside the wave. All members get this in the same step."""


@dataclass(frozen=True)
class Broken:
    """A step that fails for want of these ranks' votes."""

    lost: tuple[int, ...]


class WaveAllReduce:
    """Collects the votes of each step. Sans I/O, in monotonic seconds.

    Votes of one rank come in the order in which it cast them. A rank is lost if it is silent for
    `peer_timeout` seconds, if the process that was in the wave is gone, or if it votes on a later
    step and has not voted on this one.
    """

    def __init__(self, rank: int, life: int, peer_timeout: float = 5.0) -> None:
        self.rank, self.life, self.peer_timeout = rank, life, peer_timeout
        self.members: tuple[int, ...] = ()
        self._step: StepId = (0, 0, 0)
        self._cast: float | None = None
        self._own = (False, False)
        self._votes: dict[int, dict[StepId, Vote]] = {}
        self._there: Mapping[int, int] = {}
        self._gone: dict[int, int] = {}
        self._lives: dict[
            int, int
        ] = {}  # of the members, as their votes show, or else the supervisor
        self._voted: set[int] = set()  # in this wave

    def begin(self, era: int, wave: int, members: Sequence[int]) -> None:
        """Begin a wave with these members, this rank among them."""
        self._step, self._cast = (era, wave, 0), None
        self.members = tuple(members)
        self._lives = {rank: self._there[rank] for rank in members if rank in self._there}
        self._voted = set()
        for rank, votes in self._votes.items():
            self._votes[rank] = {step: vote for step, vote in votes.items() if step >= self._step}
            for vote in self._votes[rank].values():
                self._recognise(vote)

    def cast(self, unfinished: bool, regroup: bool, now: float) -> Vote:
        """Return this replica's vote on the step, to be sent to all other members."""
        self._cast, self._own = now, (unfinished, regroup)
        return Vote(*self._step, self.rank, self.life, unfinished, regroup)

    def hear(self, vote: Vote) -> None:
        """Take another rank's vote, on this step or a later one."""
        self._recognise(vote)
        step = (vote.era, vote.wave, vote.step)
        votes = self._votes.setdefault(vote.rank, {})
        if step >= self._step and len(votes) < _MAX_EARLY_VOTES:
            votes[step] = vote

    def peers_changed(self, lives: Mapping[int, int]) -> None:
        """Note the ranks that serve, and their process numbers, which count from 1."""
        for rank, life in self._there.items():
            if lives.get(rank) != life:
                self._gone[rank] = life
        self._there = dict(lives)

    @property
    def has_voted(self) -> bool:
        """True if this replica has voted on the step."""
        return self._cast is not None

    def missing(self) -> tuple[int, ...]:
        """Return the ranks whose vote on this step has not come."""
        others = (rank for rank in self.members if rank != self.rank)
        return tuple(rank for rank in others if self._step not in self._votes.get(rank, {}))

    def due(self) -> float:
        """Return when missing votes time out; infinite while this replica has not voted."""
        return float("inf") if self._cast is None else self._cast + self.peer_timeout

    def verdict(self, now: float) -> Agreed | Broken | None:
        """Return the step's result once it is known, and begin the next step; else None."""
        if self._cast is None:
            return None
        missing = self.missing()
        if missing:
            lost = missing if now >= self.due() else tuple(filter(self._is_lost, missing))
            return Broken(lost) if lost else None
        anyone, regroup = self._own
        for rank in self.members:
            if rank != self.rank:
                vote = self._votes[rank].pop(self._step)
                anyone, regroup = anyone or vote.unfinished, regroup or vote.regroup
        era, wave, step = self._step
        self._step, self._cast = (era, wave, step + 1), None
        return Agreed(anyone, regroup)

    def _is_lost(self, rank: int) -> bool:
        if any(step > self._step for step in self._votes.get(rank, {})):
            return True
        life = self._lives.get(rank)
        return life is not None and life <= self._gone.get(rank, 0)

    def _recognise(self, vote: Vote) -> None:
        """Learn from a vote which process of the rank is in this wave: the first that voted."""
        if (vote.era, vote.wave) != self._step[:2]:
            return
        if vote.rank not in self._voted:
            self._voted.add(vote.rank)
            self._lives[vote.rank] = vote.life
        elif vote.life != self._lives[vote.rank]:
            self._gone[vote.rank] = self._lives[vote.rank]
