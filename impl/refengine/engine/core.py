"""What a core decides: when it steps, what it votes, whom it tells what (SPEC 8, C2, C3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..coordinator import EngineWave, Report, Start, State
from .agreement import Agreed, Agreement, Broken
from .batch import Batch, StepResult
from .messages import Made, Refused, Vote
from .request import Output, Request, RequestRefused

_ASK_AGAIN = 2.0  # seconds without an answer from the coordinator
_REGROUP = 1.0  # seconds, at least, between two waves that end for a newcomer's sake
_LOOK_AGAIN = 0.002  # seconds between two looks for blocks that come, with nothing else to do


class Scheduling(Protocol):
    """What a core needs of its scheduler."""

    @property
    def waiting(self) -> int:
        """Requests that have not begun."""
        ...

    @property
    def running(self) -> int:
        """Requests that have."""
        ...

    def add(self, request: Request) -> None:
        """RequestRefused, ValueError: it can never be served."""
        ...

    def cancel(self, request_id: str) -> Output | None:
        """What ends it; None if there is no such request."""
        ...

    def schedule(self) -> Batch | None:
        """What to do in one step; None: nothing."""
        ...

    def update(self, batch: Batch, result: Sequence[StepResult]) -> list[Output]:
        """What that gave."""
        ...


@dataclass(frozen=True)
class Step:
    """Have the workers do this; without a batch, a step that keeps step with others (C3)."""

    batch: Batch | None


@dataclass(frozen=True)
class Relink:
    """Make the link to the coordinator anew: it may not count this replica any more."""


Deed = Made | Refused | Report | Vote | Step | Relink
"""To the front end, to the coordinator, to the other members of the wave, to the workers."""


class Core:
    """Sans I/O, in monotonic seconds: takes what happens, and returns what to do, in order.

    Without a coordinator it steps whenever there is something to do. With one it steps while a
    wave runs, with or without requests, and each step ends with the wave's agreement.
    """

    def __init__(
        self, scheduler: Scheduling, wave: EngineWave | None, agreement: Agreement
    ) -> None:
        self.scheduler, self.wave, self.agreement = scheduler, wave, agreement
        self.era = 0
        self.steps = 0
        self.taken = 0
        self.imported = 0
        """Prompts whose blocks came by a KV link, as the first rank says."""
        self._importing: set[str] = set()
        self.stepping_since: float | None = None
        self._batch: Batch | None = None
        self._in_wave = False  # the agreement is about the wave that is on
        self._overtaken = False  # the coordinator has begun a later wave
        self._votes_after = False  # the step that is on is one of the wave that is on
        self._others: frozenset[int] = frozenset()
        self._regrouped = float("-inf")
        self._asked = float("inf")
        self._looking = False  # it has stepped for no other reason than blocks that are to come
        self._look_again = float("-inf")

    @property
    def unfinished(self) -> int:
        """Requests that it has."""
        return self.scheduler.waiting + self.scheduler.running

    def begin(self, request: Request, now: float) -> list[Deed]:
        """A request has come."""
        self.taken += 1
        try:
            self.scheduler.add(request)
        except ValueError as error:
            reason = error.reason if isinstance(error, RequestRefused) else str(error)
            return [Refused(request.id, reason)]
        self._looking = False
        if request.imported is not None:
            self._importing.add(request.transfer_id)
        out: list[Deed] = []
        if self.wave is not None:
            out += self._asking(self.wave.accepted(), now)
        return out + self._go_on(now)

    def cancel(self, request_id: str, now: float) -> list[Deed]:
        """Nobody wants that one any more."""
        output = self.scheduler.cancel(request_id)
        return self._made([] if output is None else [output]) + self._go_on(now)

    def start(self, start: Start | State, now: float) -> list[Deed]:
        """The coordinator has published."""
        if self.wave is None or isinstance(start, State):
            return []
        if self.wave.running and start.wave > self.wave.wave:
            self._overtaken = True
        return self._asking(self.wave.hear(start), now) + self._go_on(now)

    def meet(self, era: int, now: float) -> list[Deed]:
        """There is another coordinator, which knows nothing: everything is begun anew with it."""
        if self.wave is None:
            return []
        self.era, self.wave = era, EngineWave(self.wave.rank)
        self._in_wave = self._overtaken = self._votes_after = False
        out: list[Deed] = []
        for _ in range(self.unfinished):
            out += self._asking(self.wave.accepted(), now)
        return out

    def roster(self, lives: Mapping[int, int], now: float) -> list[Deed]:
        """These data-parallel replicas are there."""
        self.agreement.roster(lives)
        self._others = frozenset(lives)
        return self._go_on(now)

    def vote(self, vote: Vote, now: float) -> list[Deed]:
        """Another replica has voted."""
        self.agreement.hear(vote)
        return self._go_on(now)

    def stepped(self, results: Sequence[StepResult], now: float) -> list[Deed]:
        """The workers have done what they were to do; what each rank says, nothing of a dummy."""
        batch, self._batch, self.stepping_since = self._batch, None, None
        self.steps += 1
        for result in results[:1]:
            self.imported += len(self._importing.intersection(result.kv_done))
            self._importing.difference_update(result.kv_done, result.kv_failed)
        out = self._made([] if batch is None else self.scheduler.update(batch, results))
        if self.wave is not None and self._votes_after:
            regroups = self._regroups(self.wave, now)
            out.append(self.agreement.cast(self.wave.unfinished > 0, regroups, now))
        return out + self._go_on(now)

    def tick(self, now: float) -> list[Deed]:
        """Time has passed."""
        out: list[Deed] = []
        if self.wave is not None and self._is_kept_waiting and now >= self._asked + _ASK_AGAIN:
            self.wave.hold()
            out += [Relink(), *self._asking(self.wave.release(), now)]
        return out + self._go_on(now)

    def due(self) -> float:
        """When to call `tick` at the latest."""
        if self.stepping_since is not None:
            return float("inf")
        if self._is_kept_waiting:
            return self._asked + _ASK_AGAIN
        if self.wave is not None and self.wave.running:
            return self.agreement.due()
        return self._look_again if self._looking else float("inf")

    def waits_for(self) -> str:
        """For people: what keeps it from stepping; empty if nothing does."""
        if self.stepping_since is not None:
            return "its workers"
        if self.wave is not None and self.wave.running:
            missing = self.agreement.missing()
            return f"the votes of ranks {missing}" if missing else ""
        return "the coordinator to begin a wave" if self.wave and self.wave.unfinished else ""

    @property
    def _is_kept_waiting(self) -> bool:
        wave = self.wave
        return wave is not None and wave.unfinished > 0 and not wave.running

    def _go_on(self, now: float) -> list[Deed]:
        """Whatever can be done now."""
        if self.stepping_since is not None:
            return []
        if self.wave is None:
            return self._step(now)
        out: list[Deed] = []
        while self.wave.running:
            if not self._in_wave:
                self.agreement.begin(self.era, self.wave.wave, self.wave.members)
                self._in_wave, self._overtaken = True, False
            if not self.agreement.has_voted:
                return [*out, self._step_in_wave(now)]
            verdict = self.agreement.verdict(now)
            if verdict is None and not self._overtaken:
                return out
            out += self._concluded(self.wave, verdict or Broken(()), now)
        return out

    def _concluded(self, wave: EngineWave, verdict: Agreed | Broken, now: float) -> list[Deed]:
        if isinstance(verdict, Agreed) and not verdict.regroup:
            reports = wave.agreed(verdict.anyone)
            self._in_wave = verdict.anyone
        else:
            self._regrouped = now
            reports = wave.broken(verdict.lost if isinstance(verdict, Broken) else ())
            self._in_wave = False
        return self._asking(reports, now)

    def _step(self, now: float) -> list[Deed]:
        if self._looking and now < self._look_again:
            return []
        batch = self.scheduler.schedule()
        if batch is None:
            self._looking = False
            return []
        self._looking = not (batch.rows or batch.fetch or batch.send)
        self._look_again = now + _LOOK_AGAIN
        self._batch, self.stepping_since = batch, now
        return [Step(batch)]

    def _step_in_wave(self, now: float) -> Step:
        self._batch, self.stepping_since = self.scheduler.schedule(), now
        self._votes_after = True
        return Step(self._batch)

    def _regroups(self, wave: EngineWave, now: float) -> bool:
        return bool(self._others - {*wave.members}) and now >= self._regrouped + _REGROUP

    def _made(self, outputs: list[Output]) -> list[Deed]:
        ended = sum(output.finish is not None for output in outputs)
        if self.wave is not None:
            self.wave.finished(ended)
        return [Made(tuple(outputs))] if outputs else []

    def _asking(self, reports: list[Report], now: float) -> list[Deed]:
        if any(report.work for report in reports):
            self._asked = now
        return list(reports)
