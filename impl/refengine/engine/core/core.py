"""What a core decides: when it steps, what it votes, whom it tells what (SPEC 8, C2, C3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...coordinator import EngineWave, Report, Start, State
from ..errors import RequestRefused
from ..model.batching import Batch, StepResult
from ..protocol import Output, Outputs, Refused, Request, Vote
from .wave_allreduce import Agreed, Broken, WaveAllReduce

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
class ReconnectCoordinator:
    """Make the link to the coordinator anew: it may not count this replica any more."""


Action = Outputs | Refused | Report | Vote | Step | ReconnectCoordinator
"""To the front end, to the coordinator, to the other members of the wave, to the workers."""


class Core:
    """Sans I/O, in monotonic seconds: takes what happens, and returns what to do, in order.

    Without a coordinator it steps whenever there is something to do. With one it steps while a
    wave runs, with or without requests, and each step ends with the wave's agreement.
    """

    def __init__(
        self, scheduler: Scheduling, wave: EngineWave | None, allreduce: WaveAllReduce
    ) -> None:
        self.scheduler, self.wave, self.allreduce = scheduler, wave, allreduce
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

    def add_request(self, request: Request, now: float) -> list[Action]:
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
        out: list[Action] = []
        if self.wave is not None:
            out += self._reports(self.wave.accepted(), now)
        return out + self._proceed(now)

    def cancel(self, request_id: str, now: float) -> list[Action]:
        """Nobody wants that one any more."""
        output = self.scheduler.cancel(request_id)
        return self._outputs([] if output is None else [output]) + self._proceed(now)

    def coordinator_published(self, start: Start | State, now: float) -> list[Action]:
        """The coordinator has published."""
        if self.wave is None or isinstance(start, State):
            return []
        if self.wave.running and start.wave > self.wave.wave:
            self._overtaken = True
        return self._reports(self.wave.hear(start), now) + self._proceed(now)

    def coordinator_replaced(self, era: int, now: float) -> list[Action]:
        """There is another coordinator, which knows nothing: everything is begun anew with it."""
        if self.wave is None:
            return []
        self.era, self.wave = era, EngineWave(self.wave.rank)
        self._in_wave = self._overtaken = self._votes_after = False
        out: list[Action] = []
        for _ in range(self.unfinished):
            out += self._reports(self.wave.accepted(), now)
        return out

    def peers_changed(self, lives: Mapping[int, int], now: float) -> list[Action]:
        """These data-parallel replicas are there."""
        self.allreduce.peers_changed(lives)
        self._others = frozenset(lives)
        return self._proceed(now)

    def vote(self, vote: Vote, now: float) -> list[Action]:
        """Another replica has voted."""
        self.allreduce.hear(vote)
        return self._proceed(now)

    def stepped(self, results: Sequence[StepResult], now: float) -> list[Action]:
        """The workers have done what they were to do; what each rank says, nothing of a dummy."""
        batch, self._batch, self.stepping_since = self._batch, None, None
        self.steps += 1
        for result in results[:1]:
            self.imported += len(self._importing.intersection(result.kv_done))
            self._importing.difference_update(result.kv_done, result.kv_failed)
        out = self._outputs([] if batch is None else self.scheduler.update(batch, results))
        if self.wave is not None and self._votes_after:
            regroups = self._regroups(self.wave, now)
            out.append(self.allreduce.cast(self.wave.unfinished > 0, regroups, now))
        return out + self._proceed(now)

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""
        out: list[Action] = []
        if self.wave is not None and self._is_kept_waiting and now >= self._asked + _ASK_AGAIN:
            self.wave.hold()
            out += [ReconnectCoordinator(), *self._reports(self.wave.release(), now)]
        return out + self._proceed(now)

    def due(self) -> float:
        """When to call `tick` at the latest."""
        if self.stepping_since is not None:
            return float("inf")
        if self._is_kept_waiting:
            return self._asked + _ASK_AGAIN
        if self.wave is not None and self.wave.running:
            return self.allreduce.due()
        return self._look_again if self._looking else float("inf")

    def waits_for(self) -> str:
        """For people: what keeps it from stepping; empty if nothing does."""
        if self.stepping_since is not None:
            return "its workers"
        if self.wave is not None and self.wave.running:
            missing = self.allreduce.missing()
            return f"the votes of ranks {missing}" if missing else ""
        return "the coordinator to begin a wave" if self.wave and self.wave.unfinished else ""

    @property
    def _is_kept_waiting(self) -> bool:
        wave = self.wave
        return wave is not None and wave.unfinished > 0 and not wave.running

    def _proceed(self, now: float) -> list[Action]:
        """Whatever can be done now."""
        if self.stepping_since is not None:
            return []
        if self.wave is None:
            return self._step(now)
        out: list[Action] = []
        while self.wave.running:
            if not self._in_wave:
                self.allreduce.begin(self.era, self.wave.wave, self.wave.members)
                self._in_wave, self._overtaken = True, False
            if not self.allreduce.has_voted:
                return [*out, self._step_in_wave(now)]
            verdict = self.allreduce.verdict(now)
            if verdict is None and not self._overtaken:
                return out
            out += self._concluded(self.wave, verdict or Broken(()), now)
        return out

    def _concluded(self, wave: EngineWave, verdict: Agreed | Broken, now: float) -> list[Action]:
        if isinstance(verdict, Agreed) and not verdict.regroup:
            reports = wave.agreed(verdict.anyone)
            self._in_wave = verdict.anyone
        else:
            self._regrouped = now
            reports = wave.broken(verdict.lost if isinstance(verdict, Broken) else ())
            self._in_wave = False
        return self._reports(reports, now)

    def _step(self, now: float) -> list[Action]:
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

    def _outputs(self, outputs: list[Output]) -> list[Action]:
        ended = sum(output.finish is not None for output in outputs)
        if self.wave is not None:
            self.wave.finished(ended)
        return [Outputs(tuple(outputs))] if outputs else []

    def _reports(self, reports: list[Report], now: float) -> list[Action]:
        if any(report.work for report in reports):
            self._asked = now
        return list(reports)
