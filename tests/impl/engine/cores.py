"""Cores with schedulers of no model, and several of them around a coordinator, in one process."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Any

from refengine.coordinator import CoordinatorWave, EngineWave, Report, Start, State
from refengine.engine.core.core import Action, Core, ReconnectCoordinator, Step
from refengine.engine.core.wave_allreduce import WaveAllReduce
from refengine.engine.errors import RequestRefused
from refengine.engine.model.batching import Batch, Row, StepResult
from refengine.engine.protocol import Output, Outputs, Request, Vote


def request(name: str, tokens: int = 2) -> Request:
    return Request(name, (1,), tokens)


class Steps:
    """A scheduler: each step gives each request one token."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}
        self.looks = 0
        """Steps without rows that it asks for when it has nothing else."""
        self.stepped = 0
        self.cancelled: list[str] = []
        self.waiting = 0

    @property
    def running(self) -> int:
        return len(self.left)

    def add(self, request: Request) -> None:
        if request.max_tokens > 100:
            raise RequestRefused(request.id, "too many")
        self.left[request.id] = request.max_tokens

    def cancel(self, request_id: str) -> Output | None:
        self.cancelled.append(request_id)
        known = self.left.pop(request_id, None)
        return None if known is None else Output(request_id, (), "cancelled")

    def schedule(self) -> Batch | None:
        if self.left:
            return Batch(tuple(Row(name, (1,), 0, (), True) for name in self.left))
        if self.looks:
            self.looks -= 1
            return Batch()
        return None

    def update(self, batch: Batch, result: Sequence[StepResult]) -> list[Output]:
        self.stepped += 1
        outputs: list[Output] = []
        for row in batch.rows:
            left = self.left.get(row.request_id)
            if left is None:
                continue
            if left == 1:
                del self.left[row.request_id]
            else:
                self.left[row.request_id] = left - 1
            outputs.append(Output(row.request_id, (7,), "length" if left == 1 else None))
        return outputs


def alone() -> tuple[Core, Steps]:
    """Without a coordinator."""
    steps = Steps()
    return Core(steps, None, WaveAllReduce(0, 1)), steps


def member(rank: int = 0, life: int = 1) -> tuple[Core, Steps]:
    """One of several."""
    steps = Steps()
    return Core(steps, EngineWave(rank), WaveAllReduce(rank, life)), steps


class Fleet:
    """Several cores, a coordinator and their links; each message takes its time.

    Messages of one link come in order. Which link is next is drawn by lot.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.lot = random.Random(seed)
        self.now = 0.0
        self.size = size
        self.era = 0
        self.lives = [0] * size
        self.cores: dict[int, Core] = {}
        self.links: dict[tuple[Any, ...], deque[tuple[Any, ...]]] = {}
        self.finished: dict[str, str] = {}
        self.asked: dict[str, int] = {}
        self.linked: set[int] = set()
        """Who hears the coordinator."""
        self.steps: dict[tuple[int, int, int], dict[int, int]] = {}
        self.new_coordinator()
        for rank in range(size):
            self.start(rank)

    def new_coordinator(self) -> None:
        """A new one; what was under way to and from the one before is lost."""
        self.era += 1
        self.coordinator = CoordinatorWave(self.size)
        self.linked.clear()
        for link in [link for link in self.links if "coordinator" in link]:
            del self.links[link]
        for rank in self.cores:
            self._post(("supervisor", rank), "meet", self.era)

    def start(self, rank: int) -> None:
        self.lives[rank] += 1
        self.cores[rank] = member(rank, self.lives[rank])[0]
        self._roster()
        self._post(("supervisor", rank), "meet", self.era)

    def kill(self, rank: int) -> None:
        """Its requests are asked of others."""
        core = self.cores.pop(rank)
        self.linked.discard(rank)
        for link in [link for link in self.links if rank in link]:
            del self.links[link]
        self._publish(self.coordinator.left(rank))
        self._roster()
        for name in core.scheduler.left:
            self.ask(name)

    def ask(self, name: str, tokens: int = 2) -> None:
        rank = self.lot.choice(list(self.cores))
        self.asked[name] = rank
        self._do(rank, self.cores[rank].add_request(request(name, tokens), self.now))

    def run(self, until: Any, most: int = 20_000) -> None:
        for _ in range(most):
            if until():
                return
            self.turn()
        waits = {rank: core.waits_for() for rank, core in self.cores.items()}
        raise AssertionError(f"not there after {most} turns: {waits}")

    def turn(self) -> None:
        ready = [link for link, messages in self.links.items() if messages]
        if not ready:
            self.now += 0.5
            self._publish(
                [Start(self.coordinator.wave, self.coordinator.members)]
                if self.coordinator.running
                else []
            )
            for rank, core in list(self.cores.items()):
                self._do(rank, core.tick(self.now))
            return
        link = self.lot.choice(ready)
        what, *args = self.links[link].popleft()
        self.now += 0.0001
        getattr(self, f"_{what}")(link[-1], *args)

    # -- what messages do -------------------------------------------------------------------------

    def _meet(self, rank: int, era: int) -> None:
        if era == self.era:
            self.linked.add(rank)
            self._publish(self.coordinator.arrived(rank))
        self._do(rank, self.cores[rank].coordinator_replaced(era, self.now))

    def _lives(self, rank: int, lives: dict[int, int]) -> None:
        self._do(rank, self.cores[rank].peers_changed(lives, self.now))

    def _step(self, rank: int, life: int) -> None:
        core = self.cores[rank]
        if core.wave is not None and core.wave.running:
            counted = self.steps.setdefault((core.era, core.wave.wave, 0), {})
            counted[rank] = counted.get(rank, 0) + 1
        self._do(rank, core.stepped((StepResult(),), self.now))

    def _vote(self, rank: int, vote: Vote) -> None:
        self._do(rank, self.cores[rank].vote(vote, self.now))

    def _heard(self, rank: int, news: Start | State) -> None:
        self._do(rank, self.cores[rank].coordinator_published(news, self.now))

    def _report(self, _: str, report: Report) -> None:
        self._publish(self.coordinator.hear(report))

    def _relink(self, _: str, rank: int) -> None:
        self._publish(self.coordinator.left(rank))
        self._publish(self.coordinator.arrived(rank))

    # -- what cores want --------------------------------------------------------------------------

    def _do(self, rank: int, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Outputs):
                for output in action.outputs:
                    if output.finish is not None:
                        assert output.id not in self.finished
                        self.finished[output.id] = output.finish
            elif isinstance(action, Report):
                self._post((rank, "coordinator"), "report", action)
            elif isinstance(action, Vote):
                for other in self.cores[rank].allreduce.members:
                    if other != rank and other in self.cores:
                        self._post((rank, "vote", other), "vote", action)
            elif isinstance(action, Step):
                self._post(("workers", rank), "step", self.lives[rank])
            elif isinstance(action, ReconnectCoordinator):
                self._post((rank, "coordinator"), "relink", rank)

    def _publish(self, news: list[Start | State]) -> None:
        for each in news:
            for rank in sorted(self.linked):
                self._post(("coordinator", rank), "heard", each)

    def _roster(self) -> None:
        lives = {rank: self.lives[rank] for rank in self.cores}
        for rank in self.cores:
            self._post(("supervisor", rank), "lives", lives)

    def _post(self, link: tuple[Any, ...], what: str, *args: Any) -> None:
        self.links.setdefault(link, deque()).append((what, *args))
