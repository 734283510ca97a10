"""A run of ``killpoint bench pipe``: one tensor at a time, all peers side by side."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from killpoint.bench.machine import Machine, Meanwhile, ProcessorUse, look
from killpoint.bench.pipes.orders import PipeOf
from killpoint.bench.process_factory import FactoryProcess, NotMeasured, ProcessFactory
from killpoint.bench.run import Figures, failing
from killpoint.bench.statistics import Ratio, paired
from killpoint.progress.counting import Tell, quiet
from killpoint.runner.network.group_rendezvous import free_port

_WITHIN = 120.0
_HOST = "127.0.0.1"
_WARM_UP = 3


class PipePace(msgspec.Struct, frozen=True):
    """Repetitions and sizes of a measurement."""

    groups: int = 4
    """Times that every pipe is made afresh."""
    rounds: int = 4
    """Samples of each peer in a group; each round's are taken side by side."""
    trips: int = 8
    """Round trips in a sample, which is their median."""
    nbytes: int = 64 << 20
    """Size of a tensor, in bytes."""


class PipeOutcome(msgspec.Struct):
    """A whole run; trips in milliseconds."""

    target: str
    versions: dict[str, str]
    missing: dict[str, str]
    machine: Machine
    pace: PipePace
    seed: int
    trips: dict[str, Figures]
    meanwhile: Meanwhile

    def ratio(self, peer: str) -> Ratio | None:
        """The target's paired ratio to a peer: above 1 it is faster."""
        ours, theirs = self.trips[self.target], self.trips[peer]
        if not ours.samples or len(ours.samples) != len(theirs.samples):
            return None
        return paired(ours.samples, theirs.samples, more_is_better=False)

    def failures(self) -> list[str]:
        """Return what should have been measured and was not, with the reasons."""
        found = self.trips.items()
        return [f"{name}: {figures.missing}" for name, figures in found if figures.failed]


class Ends:
    """One peer's pipe: two processes that wait unless they are sampled."""

    def __init__(self, factory: ProcessFactory) -> None:
        """Fork them; ``start`` makes the pipe."""
        self._members: list[FactoryProcess] = [factory.fork("sender")]
        self._members.append(factory.fork("receiver"))

    def start(self, pace: PipePace) -> bool:
        """Make the pipe and warm it up; False if the peer has none."""
        port = free_port(_HOST)
        for rank, member in enumerate(self._members):
            member.order("pipe_make", rank, PipeOf(), _HOST, port, pace.nbytes)
        there = [member.answer(_WITHIN) for member in self._members]
        if all(there):
            self.sample(_WARM_UP)
        return all(there)

    def sample(self, trips: int) -> list[float]:
        """Milliseconds of each."""
        sender, receiver = self._members
        receiver.order("pipe_takes", trips)
        sender.order("pipe_trips", trips)
        took = [ns / 1e6 for ns in sender.answer(_WITHIN)]
        receiver.answer(_WITHIN)
        return took

    def leave(self) -> None:
        """End both in good order."""
        for member in self._members:
            with contextlib.suppress(NotMeasured):
                member.order("pipe_close")
        for member in self._members:
            with contextlib.suppress(NotMeasured):
                member.answer(_WITHIN)
            member.leave()
        for member in self._members:
            member.end()


class PipeBench:
    """Measures a target's pipe beside others'."""

    def __init__(
        self,
        peers: Sequence[tuple[str, str]],
        pace: PipePace,
        seed: int,
        tell: Tell = quiet,
    ) -> None:
        """``peers``: names and what a zygote takes for them, the target first."""
        self._peers, self._pace, self._seed, self._tell = list(peers), pace, seed, tell
        self._random = random.Random(seed)
        self._factories: dict[str, ProcessFactory] = {}

    def run(self, missing: dict[str, str]) -> PipeOutcome:
        """Measure everything."""
        machine, watch = look(), ProcessorUse()
        folder = Path(tempfile.mkdtemp(prefix="killpoint-bench-"))
        trips = {name: Figures() for name, _ in self._peers}
        try:
            for name, spec in self._peers:
                with failing(trips[name]):
                    self._tell(f"loading {name}")
                    self._factories[name] = ProcessFactory(name, spec, folder)
            for number in range(self._pace.groups):
                self._tell("trips", number, self._pace.groups)
                self._group(trips)
            versions = {name: each.version for name, each in self._factories.items()}
        finally:
            for factory in self._factories.values():
                factory.close()
            shutil.rmtree(folder, ignore_errors=True)
        return PipeOutcome(
            target=self._peers[0][0],
            versions=versions,
            missing=missing,
            machine=machine,
            pace=self._pace,
            seed=self._seed,
            trips=trips,
            meanwhile=watch.read(),
        )

    def _group(self, figures: dict[str, Figures]) -> None:
        ends: dict[str, Ends] = {}
        try:
            for name, factory in self._factories.items():
                if figures[name].missing is None:
                    with failing(figures[name]):
                        ends[name] = Ends(factory)
                        if not ends[name].start(self._pace):
                            figures[name].missing = "it has no pipe here"
            order = list(ends)
            self._random.shuffle(order)
            for _ in range(self._pace.rounds):
                for name in order:
                    if figures[name].missing is None:
                        with failing(figures[name]):
                            took = ends[name].sample(self._pace.trips)
                            figures[name].samples.append(sorted(took)[len(took) // 2])
                            figures[name].trips += took
                order.reverse()  # A B B A
        finally:
            for each in ends.values():
                each.leave()
