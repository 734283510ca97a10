"""A run of ``killpoint bench pool``: calls of all peers side by side; starts warm and cold."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from killpoint.bench.machine import Machine, Meanwhile, ProcessorUse, look
from killpoint.bench.process_factory import FactoryProcess, NotMeasured, ProcessFactory
from killpoint.bench.run import Figures, failing
from killpoint.bench.statistics import Ratio, paired
from killpoint.progress.counting import Tell, quiet
from killpoint.targets.shapes import PoolShape

IDLE, TORCH = (f"killpoint.bench.pools.worker:{name}" for name in ("Idle", "WithTorch"))
_WITHIN = 150.0
_CALLERS, _STARTERS = 2, 4
"""Workers of a pool that is called, and of one whose start is measured."""
_WARM_UP = 200
_METHODS: tuple[Literal["default"], Literal["spawn"]] = ("default", "spawn")
_CHUNK, _CHUNKS = 1 << 20, 10


class PoolPace(msgspec.Struct, frozen=True):
    """Repetitions of a measurement."""

    groups: int = 4
    """Times that every pool of the calls is started afresh."""
    rounds: int = 4
    """Samples of each peer in a group; each round's are taken side by side."""
    calls: int = 1500
    """Calls in a sample."""
    starts: int = 5
    """Samples of a start, warm and by spawn."""


class PoolOutcome(msgspec.Struct):
    """A whole run. Calls in microseconds, starts in seconds; ``starts`` by start method."""

    target: str
    versions: dict[str, str]
    missing: dict[str, str]
    machine: Machine
    pace: PoolPace
    seed: int
    calls: dict[str, Figures]
    starts: dict[str, Figures]
    meanwhile: Meanwhile

    def ratio(self, peer: str) -> Ratio | None:
        """The target's paired ratio to a peer: above 1 its calls are faster."""
        return _ratio(self.calls[self.target], self.calls[peer])

    def start_ratio(self) -> Ratio | None:
        """Return how many times as fast a pool of the default kind starts as a spawned one."""
        return _ratio(self.starts["default"], self.starts["spawn"])

    def failures(self) -> list[str]:
        """Return what should have been measured and was not, with the reasons."""
        every = [*self.calls.items(), *self.starts.items()]
        return [f"{name}: {figures.missing}" for name, figures in every if figures.failed]


class Caller:
    """One peer's pool in a process of its own; it runs only while it is sampled."""

    def __init__(self, factory: ProcessFactory) -> None:
        """Fork its process; ``start`` makes the pool."""
        self._member: FactoryProcess = factory.fork("executor")
        self._pids = [self._member.pid]

    def start(self) -> None:
        """Make the pool, warm it up, and put it to sleep."""
        shape = PoolShape(_CALLERS, chunk_bytes=_CHUNK, chunks=_CHUNKS)
        _, pids = self._member.do(_WITHIN, "pool_start", shape, IDLE)
        self._pids += pids
        self._member.do(_WITHIN, "pool_calls", _WARM_UP)
        self._signal(signal.SIGSTOP)

    def sample(self, calls: int) -> list[float]:
        """Microseconds of each call, with every other pool standing still."""
        self._signal(signal.SIGCONT)
        try:
            self._member.do(_WITHIN, "pool_calls", _WARM_UP // 4)
            return [ns / 1000 for ns in self._member.do(_WITHIN, "pool_calls", calls)]
        finally:
            self._signal(signal.SIGSTOP)

    def leave(self) -> None:
        """End it in good order."""
        self._signal(signal.SIGCONT)
        with contextlib.suppress(NotMeasured):
            self._member.do(_WITHIN, "pool_stop")
        self._member.leave()
        self._member.end()

    def _signal(self, number: int) -> None:
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class PoolBench:
    """Measures a target's pools beside others'."""

    def __init__(
        self,
        peers: Sequence[tuple[str, str]],
        pace: PoolPace,
        seed: int,
        tell: Tell = quiet,
    ) -> None:
        """``peers``: names and what a zygote takes for them, the target first."""
        self._peers, self._pace, self._seed, self._tell = list(peers), pace, seed, tell
        self._random = random.Random(seed)
        self._factories: dict[str, ProcessFactory] = {}

    def run(self, missing: dict[str, str]) -> PoolOutcome:
        """Measure everything."""
        machine, watch = look(), ProcessorUse()
        folder = Path(tempfile.mkdtemp(prefix="killpoint-bench-"))
        calls = {name: Figures() for name, _ in self._peers}
        starts = {"default": Figures(), "spawn": Figures()}
        try:
            for name, spec in self._peers:
                with failing(calls[name]):
                    self._tell(f"loading {name}")
                    self._factories[name] = ProcessFactory(name, spec, folder)
            for number in range(self._pace.groups):
                self._tell("calls", number, self._pace.groups)
                self._calls(calls)
            self._starts(starts)
            versions = {name: each.version for name, each in self._factories.items()}
        finally:
            for factory in self._factories.values():
                factory.close()
            shutil.rmtree(folder, ignore_errors=True)
        return PoolOutcome(
            target=self._peers[0][0],
            versions=versions,
            missing=missing,
            machine=machine,
            pace=self._pace,
            seed=self._seed,
            calls=calls,
            starts=starts,
            meanwhile=watch.read(),
        )

    def _calls(self, figures: dict[str, Figures]) -> None:
        callers: dict[str, Caller] = {}
        try:
            for name, factory in self._factories.items():
                if figures[name].missing is None:
                    with failing(figures[name]):
                        callers[name] = Caller(factory)
                        callers[name].start()
            order = list(callers)
            self._random.shuffle(order)
            for _ in range(self._pace.rounds):
                for name in order:
                    if figures[name].missing is None:
                        with failing(figures[name]):
                            took = callers[name].sample(self._pace.calls)
                            figures[name].samples.append(sorted(took)[len(took) // 2])
                            figures[name].trips += took
                order.reverse()  # A B B A
        finally:
            for caller in callers.values():
                caller.leave()

    def _starts(self, figures: dict[str, Figures]) -> None:
        """Pools of torch workers, from a process that has torch; the first is not counted."""
        factory = self._factories.get(self._peers[0][0])
        if factory is None:
            return
        member = factory.fork("executor")
        try:
            with failing(figures["default"]):
                member.do(_WITHIN, "have", "torch")
                for number in range(self._pace.starts + 1):
                    self._tell("starts", number, self._pace.starts + 1)
                    for method in _METHODS[: 2 if number else 1]:
                        shape = _starting(method)
                        took, _ = member.do(_WITHIN, "pool_start", shape, TORCH)
                        member.do(_WITHIN, "pool_stop")
                        if number:
                            figures[method].samples.append(took)
        finally:
            member.leave()
            member.end()


def _starting(method: Literal["default", "spawn"]) -> PoolShape:
    return PoolShape(_STARTERS, start=method, chunk_bytes=_CHUNK, chunks=_CHUNKS)


def _ratio(ours: Figures, theirs: Figures) -> Ratio | None:
    if not ours.samples or len(ours.samples) != len(theirs.samples):
        return None
    return paired(ours.samples, theirs.samples, more_is_better=False)
