"""Decisions of a core: when it steps, how it votes, which messages it sends (SPEC 8, C2, C3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...coordinator import EngineWave, Report, Start, State
from ..errors import RequestRefused
from ..model.batching import Batch, StepResult
from ..protocol import Output, Outputs, Refused, Request, Vote
from .wave_allreduce import Agreed, Broken, WaveAllReduce

_ASK_AGAIN = 2.0  # seconds without an answer from the coordinator, until it is asked again
_REGROUP = 1.0  # seconds, at least, between two waves that end to let a newcomer in
_LOOK_AGAIN = 0.002  # seconds between two checks for KV blocks, with nothing else to do


class Scheduling(Protocol):
    """Interface that a core needs of its scheduler."""

    @property
    def waiting(self) -> int:
        """Number of requests that have not begun."""
        ...

    @property
    def running(self) -> int:
        """Number of requests that have begun."""
        ...

    def add(self, request: Request) -> None:
        """Add a request. Raises RequestRefused, ValueError if it can never be served."""
        ...

    def cancel(self, request_id: str) -> Output | None:
        """Cancel a request; return its last output, or None if it is unknown."""
        ...

    def schedule(self) -> Batch | None:
        """Return the next step's batch; None if there is nothing to do."""
        ...

    def update(self, batch: Batch, result: Sequence[StepResult]) -> list[Output]:
        """Take the results of a batch, and return the requests' outputs."""
        ...


@dataclass(frozen=True)
class Step:
    """Have the workers do this batch; without one, a dummy step beside the others' (C3)."""

    batch: Batch | None


@dataclass(frozen=True)
class ReconnectCoordinator:
    """Reconnect to the coordinator, which may have given this replica up."""


Action = Outputs | Refused | Report | Vote | Step | ReconnectCoordinator
"""Messages to front end, coordinator and the wave's members; orders to the workers."""


class Core:
    """Sans I/O, in monotonic seconds: takes events, and returns the actions to do, in order.

    Without a coordinator it steps whenever there is something to do. With one it steps while a
    wave runs, with or without requests, and each step ends with the wave's all-reduce.
    """

    def __init__(
        self, scheduler: Scheduling, wave: EngineWave | None, allreduce: WaveAllReduce
    ) -> None:
        self.scheduler, self.wave, self.allreduce = scheduler, wave, allreduce
        self.era = 0
        self.steps = 0
        self.taken = 0
        self.imported = 0
        """Number of prompts whose blocks came by a KV link, as the first rank reports."""
        self._importing: set[str] = set()
        self.stepping_since: float | None = None
        self._batch: Batch | None = None
        self._in_wave = False  # the all-reduce is about the wave that is on
        self._overtaken = False  # the coordinator has begun a later wave
        self._votes_after = False  # the step that is on is one of the wave that is on
        self._others: frozenset[int] = frozenset()
        self._regrouped = float("-inf")
        self._asked = float("inf")
        self._looking = False  # it last stepped only to check for KV blocks
        self._look_again = float("-inf")

    @property
    def unfinished(self) -> int:
        """Number of its requests."""
        return self.scheduler.waiting + self.scheduler.running

    def add_request(self, request: Request, now: float) -> list[Action]:
        """Add a request."""
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
        """Cancel a request."""
        output = self.scheduler.cancel(request_id)
        return self._outputs([] if output is None else [output]) + self._proceed(now)

    def coordinator_published(self, start: Start | State, now: float) -> list[Action]:
        """Take a message of the coordinator."""
        if self.wave is None or isinstance(start, State):
            return []
        if self.wave.running and start.wave > self.wave.wave:
            self._overtaken = True
        return self._reports(self.wave.hear(start), now) + self._proceed(now)

    def coordinator_replaced(self, era: int, now: float) -> list[Action]:
        """Begin anew with another coordinator, which knows nothing of earlier waves."""
        if self.wave is None:
            return []
        self.era, self.wave = era, EngineWave(self.wave.rank)
        self._in_wave = self._overtaken = self._votes_after = False
        out: list[Action] = []
        for _ in range(self.unfinished):
            out += self._reports(self.wave.accepted(), now)
        return out

    def peers_changed(self, lives: Mapping[int, int], now: float) -> list[Action]:
        """Note which data-parallel replicas serve, as process numbers by rank."""
        self.allreduce.peers_changed(lives)
        self._others = frozenset(lives)
        return self._proceed(now)

    def vote(self, vote: Vote, now: float) -> list[Action]:
        """Take another replica's vote."""
        self.allreduce.hear(vote)
        return self._proceed(now)

    def stepped(self, results: Sequence[StepResult], now: float) -> list[Action]:
        """Take the workers' results of the step, by rank; none for a dummy step."""
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
        """Do what is due by now."""
        out: list[Action] = []
        if self.wave is not None and self._is_kept_waiting and now >= self._asked + _ASK_AGAIN:
            self.wave.hold()
            out += [ReconnectCoordinator(), *self._reports(self.wave.release(), now)]
        return out + self._proceed(now)

    def due(self) -> float:
        """Return the time of the next `tick`, at the latest."""
        if self.stepping_since is not None:
            return float("inf")
        if self._is_kept_waiting:
            return self._asked + _ASK_AGAIN
        if self.wave is not None and self.wave.running:
            return self.allreduce.due()
        return self._look_again if self._looking else float("inf")

    def waits_for(self) -> str:
        """Describe, for people, the thing that keeps it from stepping; empty if none."""
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
        """Return every action that is possible now."""
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
