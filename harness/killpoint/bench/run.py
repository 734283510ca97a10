"""A run: cells one after the other, and in each cell all peers side by side."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import msgspec

from killpoint.bench.baselines import LIMIT, Opponent
from killpoint.bench.machine import Machine, Meanwhile, ProcessorUse, look, shm_free
from killpoint.bench.peer_processes import CopyLimit, IdleReader, RoundTrip, Sample, Stream
from killpoint.bench.plan import Cell, Repetitions, Row
from killpoint.bench.process_factory import NotMeasured, ProcessFactory, TooSlow
from killpoint.bench.statistics import Ratio, Summary, paired, quantile, summary
from killpoint.bench.workload import Payload
from killpoint.errors import CannotWork
from killpoint.progress.counting import Tell, quiet
from killpoint.targets.shapes import QueueShape

_CHUNK = 24 << 20
_CHUNKS = 10


class Figures(msgspec.Struct):
    """One peer in one cell: its samples, or why there are none."""

    samples: list[float] = []
    trips: list[float] = []
    missing: str | None = None
    failed: bool = False
    """True if the peer should have been measured and could not be."""

    def summary(self) -> Summary | None:
        """Median, least and most of the samples."""
        return summary(self.samples) if self.samples else None

    def trip(self, share: float) -> float | None:
        """Return that quantile of all round trips, in microseconds."""
        return quantile(self.trips, share) if self.trips else None


@contextlib.contextmanager
def failing(figures: Figures) -> Generator[None]:
    """A peer that fails drops out, and its pairs with it."""
    try:
        yield
    except NotMeasured as error:
        figures.missing, figures.failed = str(error), True
        figures.samples.clear()
        figures.trips.clear()


class Entry(msgspec.Struct):
    """One measured cell. ``cpu`` is two: ``what`` tells which."""

    cell: Cell
    what: str
    unit: str
    figures: dict[str, Figures]

    def ratio(self, target: str, peer: str) -> Ratio | None:
        """The target's paired ratio to a peer, if both were measured in pairs."""
        ours, theirs = self.figures[target].samples, self.figures[peer].samples
        if self.cell.row == "cpu" or not ours or len(ours) != len(theirs):
            return None
        return paired(ours, theirs, more_is_better=self.cell.row == "throughput")


class Outcome(msgspec.Struct):
    """A whole run."""

    target: str
    versions: dict[str, str]
    missing: dict[str, str]
    machine: Machine
    meanwhile: Meanwhile
    pace: Repetitions
    seed: int
    chunks: int
    chunk_bytes: int
    entries: list[Entry]
    notes: list[str]
    interrupted: str = ""
    """Progress at the time of an interrupt; empty: the run was not interrupted."""

    def failures(self) -> list[str]:
        """Return what should have been measured and was not, with the reasons."""
        broken_off = [self.interrupted] if self.interrupted else []
        return broken_off + [
            f"{entry.what}: {name}: {figures.missing}"
            for entry in self.entries
            for name, figures in entry.figures.items()
            if figures.failed
        ]


class Bench:
    """The run's processes and its folder."""

    def __init__(
        self, found: Sequence[Opponent], pace: Repetitions, seed: int, tell: Tell = quiet
    ) -> None:
        self._found, self._pace, self._tell = list(found), pace, tell
        self._seed, self._random = seed, random.Random(seed)
        self._factories: dict[str, ProcessFactory] = {}
        self._broken: dict[str, str] = {}
        self._notes: list[str] = []
        self._chunks = _CHUNKS

    def run(self, cells: Sequence[Cell], missing: dict[str, str]) -> Outcome:
        """Measure every cell; if interrupted, return those measured by then, if there are any.

        Raises:
            CannotWork: the target cannot be measured at all, or there is no room for its memory.
        """
        machine, watch = look(), ProcessorUse()
        self._make_room(cells)
        folder = Path(tempfile.mkdtemp(prefix="killpoint-bench-"))
        entries: list[Entry] = []
        number, interrupted = 0, ""
        try:
            try:
                for number, cell in enumerate(cells):
                    self._tell(cell.title(), number, len(cells))
                    entries += self._measure(cell, folder)
            except (KeyboardInterrupt, SystemExit):
                if not number:
                    raise
                interrupted = f"interrupted: {number} of {len(cells)} cells were measured"
            versions = {n.name: n.version for n in self._factories.values()}
        finally:
            for factory in self._factories.values():
                factory.close()
            shutil.rmtree(folder, ignore_errors=True)
        return Outcome(
            target=self._found[0].name,
            versions=versions,
            missing=missing,
            machine=machine,
            meanwhile=watch.read(),
            pace=self._pace,
            seed=self._seed,
            chunks=self._chunks,
            chunk_bytes=_CHUNK,
            entries=entries,
            notes=self._notes,
            interrupted=interrupted,
        )

    def _make_room(self, cells: Sequence[Cell]) -> None:
        queues = 2 * sum(one.has_ring for one in self._found)
        if not any(cell.row in ("roundtrip", "cpu") for cell in cells):
            queues //= 2
        room = int(shm_free() * 0.9) // max(1, queues)
        if room < _CHUNK * _CHUNKS * 1.02:
            self._chunks = int(room // (_CHUNK * 1.02))
            if self._chunks < 2:
                raise CannotWork(
                    f"/dev/shm has {shm_free()} bytes left, too few for {queues} rings"
                )
            self._notes.append(
                f"/dev/shm is small: rings have {self._chunks} chunks instead of {_CHUNKS}"
            )

    def _factory(self, one: Opponent, row: Row, folder: Path) -> ProcessFactory:
        spec = one.spec_for(row)
        if reason := self._broken.get(spec):
            raise NotMeasured(reason)
        if spec not in self._factories:
            self._tell(f"loading {one.name}")
            try:
                self._factories[spec] = ProcessFactory(one.name, spec, folder)
            except NotMeasured as error:
                self._broken[spec] = str(error)
                raise
        return self._factories[spec]

    def _measure(self, cell: Cell, folder: Path) -> list[Entry]:
        if cell.row == "cpu":
            return self._processor_time(cell, folder)
        unit = "messages/s" if cell.row == "throughput" else "us"
        size = cell.payload.size if cell.payload else 64
        figures = {one.name: Figures() for one in self._found}
        for one in self._found:
            figures[one.name].missing = one.refusal(cell.row, size)
        for _ in range(self._pace.groups if cell.payload else 1):
            self._group(cell, folder, figures)
        return [Entry(cell, cell.title(), unit, figures)]

    def _group(self, cell: Cell, folder: Path, figures: dict[str, Figures]) -> None:
        groups: dict[str, Stream | RoundTrip] = {}
        try:
            for one in self._found:
                if figures[one.name].missing is None:
                    with self._failing(figures[one.name], groups, one.name):
                        factory = self._factory(one, cell.row, folder)
                        group = groups[one.name] = self._processes(factory, one, cell)
                        group.start()
                        if cell.payload:
                            group.warm_up(cell.payload)
            ours = groups.get(self._found[0].name)
            if ours is not None and cell.payload:
                for group in groups.values():
                    group.agree(ours.count)
            order = list(groups)
            self._random.shuffle(order)
            for _ in range(self._pace.rounds if cell.payload else self._pace.wakes):
                for name in list(order):
                    if name in groups:
                        with self._failing(figures[name], groups, name):
                            self._add(figures[name], self._sample(groups[name], cell.payload))
                order.reverse()  # A B B A
        finally:
            for name, group in groups.items():
                self._notes += [f"{cell.title()}: {name}: {text}" for text in group.leave()]

    def _processes(self, factory: ProcessFactory, one: Opponent, cell: Cell) -> Stream | RoundTrip:
        chunk = cell.payload.size if one.name == LIMIT and cell.payload else _CHUNK
        shape = QueueShape(readers=cell.readers, chunk_bytes=chunk, chunks=self._chunks)
        seconds, checked = self._pace.seconds, one.name != LIMIT
        if cell.row == "wake":
            return IdleReader(factory, shape, checked=checked)
        if cell.row == "roundtrip":
            return RoundTrip(factory, shape, seconds, checked=checked)
        return (CopyLimit if one.name == LIMIT else Stream)(factory, shape, seconds)

    def _sample(self, group: Stream | RoundTrip, payload: Payload | None) -> Sample:
        if isinstance(group, IdleReader):
            return group.wake(self._pace.idle)
        assert payload is not None
        return group.sample(payload)

    def _add(self, figures: Figures, sample: Sample) -> None:
        figures.samples.append(sample.figure)
        figures.trips += sample.trips

    @contextlib.contextmanager
    def _failing(
        self, figures: Figures, groups: dict[str, Stream | RoundTrip], name: str
    ) -> Generator[None]:
        """A peer that fails drops out of the cell; its pairs with it."""
        try:
            yield
        except NotMeasured as error:
            figures.missing = str(error)
            figures.failed = not isinstance(error, TooSlow)
            figures.samples.clear()
            figures.trips.clear()
            if group := groups.pop(name, None):
                group.kill() if figures.failed else group.leave()

    def _processor_time(self, cell: Cell, folder: Path) -> list[Entry]:
        """Measure the idle reader and the blocked writer, in percent of a core."""
        idle = {one.name: Figures() for one in self._found}
        blocked = {one.name: Figures() for one in self._found}
        pace = self._pace
        sets = [self._found] if pace.together else [[one] for one in self._found]
        for some in sets:
            idlers, writers = dict[str, Stream | RoundTrip](), dict[str, Stream | RoundTrip]()
            try:
                for one in some:
                    for figures, groups in ((idle, idlers), (blocked, writers)):
                        figures[one.name].missing = one.refusal(cell.row, 4096)
                        if figures[one.name].missing is None:
                            with self._failing(figures[one.name], groups, one.name):
                                factory = self._factory(one, cell.row, folder)
                                group = groups[one.name] = self._processes(
                                    factory, one, Cell("wake")
                                )
                                group.start()
                                assert isinstance(group, IdleReader)
                                group.start_idling() if groups is idlers else group.start_blocking()
                self._count_time(idlers, idle, writers, blocked)
            finally:
                for group in (*idlers.values(), *writers.values()):
                    self._notes += [f"{cell.title()}: {text}" for text in group.leave()]
        return [
            Entry(cell, "idle reader", "% of a core", idle),
            Entry(cell, "blocked writer", "% of a core", blocked),
        ]

    def _count_time(
        self,
        idlers: dict[str, Stream | RoundTrip],
        idle: dict[str, Figures],
        writers: dict[str, Stream | RoundTrip],
        blocked: dict[str, Figures],
    ) -> None:
        watched = [
            (group, who, figures[name], groups, name)
            for groups, who, figures in ((idlers, "reader", idle), (writers, "writer", blocked))
            for name, group in groups.items()
            if isinstance(group, IdleReader)
        ]
        time.sleep(self._pace.settle)  # idle time is what is measured
        before = [(time.monotonic(), group.used(who)) for group, who, *_ in watched]
        time.sleep(self._pace.count)
        for (start, used), (group, who, figures, groups, name) in zip(before, watched, strict=True):
            share = (group.used(who) - used) / (time.monotonic() - start)
            with self._failing(figures, groups, name):
                group.stop_idling() if who == "reader" else group.stop_blocking()
                figures.samples.append(100 * share)
