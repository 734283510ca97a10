"""judge(target): plays every case asked for, and says of each invariant whether it holds."""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import queue
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from killpoint.case import Case, Tier
from killpoint.cases import asked_of, select
from killpoint.durations import expected
from killpoint.errors import CannotWork, KillpointError
from killpoint.invariant import Invariant
from killpoint.invariants import CATALOGUE
from killpoint.judgement.resume import Ended, Kept
from killpoint.judgement.shards import shard as shared
from killpoint.runner.observe.gpus import require
from killpoint.runner.processes.zygote_client import ZygoteSource
from killpoint.runner.protocol import Loaded
from killpoint.runner.stage import Stage
from killpoint.scenario import Depth, Scenario
from killpoint.search.case_run import CaseRun, Told
from killpoint.search.schedule_run import PROCESSES
from killpoint.search.shrink.shrinker import shrink
from killpoint.targets.disclaimer import disclaimed
from killpoint.targets.registry import is_server, resolve
from killpoint.targets.shapes import Device
from killpoint.verdict import CaseOutcome, InvariantVerdict, combine

Progress = Callable[[CaseOutcome, int, int], None]
"""Called with each case as it ends, how many have ended, and how many there are."""

_EVERY_PLAY = "L1/every-play"
_A_CORE = 6
"""Plays at a time for each core: with four, an eighth of the processor's time is left towards the
end, when all cases are short; with six, a twentieth."""
_SEARCHES = max(1, len(os.sched_getaffinity(0)) // PROCESSES)
"""Simulated cases at a time, and nothing beside them: each is a search that keeps its cores busy.
So the rate that it reports is the machine's, and no play that has a deadline meets it."""


class Judgement(msgspec.Struct):
    """Result of judging one target."""

    name: str
    version: str
    notes: list[str]
    seed: int
    device: str
    full: bool
    verdicts: list[InvariantVerdict]
    seconds: float = 0.0
    left_out: list[str] = []
    """Cases that the budget left no time for."""
    files: dict[str, str] = {}
    """Paths of the target's own files, by their path in its package."""
    spec: str = ""
    """Spec of the target: the same files may be edited as they are loaded."""
    depth: Depth = "line"

    def status(self) -> int:
        """Exit status of ``check``: 1 a violation, 3 inconclusive or nothing ran, else 0."""
        words = [verdict.verdict for verdict in self.verdicts]
        if "violated" in words:
            return 1
        ran = any(case.runs for verdict in self.verdicts for case in verdict.cases)
        return 3 if "inconclusive" in words or not ran else 0


def judge(
    target: str,
    only: Sequence[str] = (),
    *,
    seed: int = 0,
    full: bool = False,
    budget: float | None = None,
    folder: Path | None = None,
    jobs: int | None = None,
    shard: tuple[int, int] = (1, 1),
    tier: Tier | None = None,
    device: Device = "cpu",
    depth: Depth = "line",
    progress: Progress | None = None,
    told: Told | None = None,
    shrinking: float = 0.0,
    first: bool = False,
    confirms: bool = True,
    ordered: bool = False,
    kept: Kept | None = None,
) -> Judgement:
    """Play the cases of the given invariants or names on a target, and combine their outcomes.

    Args:
        target: as after ``--target``.
        only: invariant ids and case names; everything if empty.
        budget: seconds after which no further case is begun.
        folder: the run's folder, for replays and records of violations.
        tier: only cases of this tier; all if None.
        device: where the workers of pools run.
        jobs: plays at a time, each with a zygote of its own; six for each core by default, since
            most of a play is waiting.
        depth: how fine the points of the sweeps are.
        shard: ``(i, n)``: only the i-th of n parts that take about as long as each other.
        told: called as a case begins, and as its sweeps go on; from several threads.
        shrinking: seconds for each violation, once every case has been played, in which a smaller
            scenario is looked for; they end with the budget.
        first: of an invariant that is violated no further case is begun, and every invariant's
            first case before any one's second.
        confirms: whether a violation that rests on time is played again alone before it counts.
        ordered: the cases are begun in the order in which ``only`` names them.
        kept: cases that have ended before, which are not played again; others are added.

    Raises:
        BadUsage, CannotWork: nothing was judged.
    """
    began = time.monotonic()
    require(device)
    server = is_server(target)
    chosen = plan(only, shard=shard, tier=tier, server=server, full=full)
    resolved = resolve(target)
    most = 1 if server else jobs or _A_CORE * (os.cpu_count() or 1)
    bench = _StagePool(resolved, min(most, max(1, len(chosen))))
    try:
        with bench:
            loaded = bench.loaded()
            run = _Run(bench, target, seed, full, folder, progress, told, depth, device, first)
            run.confirms, run.ordered, run.kept = confirms, ordered, kept
            end = began + budget if budget is not None else None
            outcomes, left_out = run.all(chosen, end)
            run.shrink(shrinking, end)
    except OSError as error:
        raise CannotWork(f"the harness could not do its work: {error}") from error
    ids = _ids(only, chosen, shard, tier)
    verdicts = [
        _verdict(
            item,
            outcomes,
            loaded.capabilities,
            _asked_whole(item.id, only, shard, tier, server=server, full=full),
            left_out,
            run.spared,
        )
        for item in CATALOGUE
        if item.id in ids
    ]
    return Judgement(
        loaded.name,
        loaded.version,
        loaded.notes,
        seed,
        device,
        full,
        verdicts,
        round(time.monotonic() - began, 1),
        left_out,
        loaded.files,
        target,
        depth,
    )


def plan(
    only: Sequence[str] = (),
    *,
    shard: tuple[int, int] = (1, 1),
    tier: Tier | None = None,
    server: bool = False,
    full: bool = False,
) -> list[Case]:
    """The cases that :func:`judge` plays if it is asked this; ``server``: of a whole server.

    Raises:
        BadUsage: an id that no invariant or case has.
    """
    asked = select(list(only), server=server, full=full)
    wanted = [case for case in asked if tier in (None, case.tier)]
    return wanted if shard[1] == 1 else shared(wanted, expected(wanted), *shard)


def _ids(
    only: Sequence[str], chosen: Sequence[Case], shard: tuple[int, int], tier: Tier | None = None
) -> set[str]:
    """The invariants that are spoken of: a part is silent on those of which it has no case."""
    mine = {case.invariant for case in chosen}
    if shard[1] > 1 or tier is not None:
        return mine
    return mine | ({word.split("/")[0] for word in only} or {item.id for item in CATALOGUE})


def _asked_whole(
    id: str,
    only: Sequence[str],
    shard: tuple[int, int],
    tier: Tier | None = None,
    *,
    server: bool = False,
    full: bool = False,
) -> bool:
    asked = [case for case in asked_of(server=server, full=full) if case.invariant == id]
    every = tier is None or all(case.tier == tier for case in asked)
    return (not only or id in only) and shard[1] == 1 and every


def _verdict(
    item: Invariant,
    outcomes: Sequence[CaseOutcome],
    capabilities: Sequence[str],
    whole: bool,
    left_out: Sequence[str],
    spared: Sequence[str] = (),
) -> InvariantVerdict:
    item = item.asked_of(capabilities)
    cases = [outcome for outcome in outcomes if outcome.invariant == item.id]
    lacking = item.lacking(capabilities)
    missing, needless = (
        sum(case.split("/")[0] == item.id for case in names) for names in (left_out, spared)
    )
    return combine(item, cases, lacking, whole=whole, left_out=missing, spared=needless)


def _by_tier(cases: Sequence[Case]) -> list[tuple[Tier, list[Case]]]:
    """The quick ones first; cases of two tiers are not played beside each other."""
    tiers: tuple[Tier, ...] = ("model", "simulated", "process")
    return [(tier, [case for case in cases if case.tier == tier]) for tier in tiers]


def _as_given(cases: Sequence[Case]) -> list[tuple[Tier, list[Case]]]:
    """Return the cases as they are given, in parts of one tier each."""
    parts = (list(part) for _, part in itertools.groupby(cases, lambda case: case.tier))
    return [(part[0].tier, part) for part in parts]


def _in_turn(cases: Sequence[Case]) -> list[Case]:
    """Return every invariant's first case, then every one's second, and so on."""
    turns: Counter[str] = Counter()
    ranked: list[tuple[int, Case]] = []
    for case in cases:
        ranked.append((turns[case.invariant], case))
        turns[case.invariant] += 1
    return [case for _, case in sorted(ranked, key=lambda each: each[0])]


def _longest_first(cases: Sequence[Case]) -> list[Case]:
    """Sort by measured durations: no long case is begun when the others have all but ended."""
    known = expected(cases)
    return sorted(cases, key=lambda case: -known[case.id].seconds)


class _StagePool:
    """Stages that wait for work; each is used by one thread at a time."""

    def __init__(self, spec: str, count: int) -> None:
        self._spec = spec
        self._free: queue.SimpleQueue[Stage] = queue.SimpleQueue()
        self._all: list[Stage] = []
        self._source: ZygoteSource | None = None
        self.count = count

    def __enter__(self) -> _StagePool:
        if self.count > 1:
            self._source = ZygoteSource(self._spec)
        with concurrent.futures.ThreadPoolExecutor(self.count) as pool:
            starts = [pool.submit(Stage, self._spec, self._source) for _ in range(self.count)]
        errors: list[BaseException] = []
        for start in starts:
            error = start.exception()
            if error is not None:
                errors.append(error)
            else:
                self._all.append(start.result())
                self._free.put(start.result())
        if errors:
            self.__exit__()
            raise errors[0]
        return self

    def __exit__(self, *_: object) -> None:
        for stage in self._all:
            stage.close()
        if self._source is not None:
            self._source.close()

    def loaded(self) -> Loaded:
        return self._all[0].zygote.loaded

    def abandon(self) -> None:
        """End plays that last, whichever thread they are in."""
        for stage in self._all:
            stage.abandon()

    def take(self) -> Stage:
        return self._free.get()

    def give(self, stage: Stage) -> None:
        self._free.put(stage)


class _Run:
    """The cases of one judgement, spread over the bench."""

    def __init__(
        self,
        bench: _StagePool,
        target: str,
        seed: int,
        full: bool,
        folder: Path | None,
        progress: Progress | None,
        told: Told | None,
        depth: Depth,
        device: Device,
        first: bool,
    ) -> None:
        self._first = first
        self.confirms = True
        self.ordered = False
        self.kept: Kept | None = None
        self._violated: set[str] = set()
        self.spared: list[str] = []
        """Cases that were not begun, since their invariant is violated."""
        self._device: Device = device
        self._bench = bench
        self._target = target
        self._capabilities = set(bench.loaded().capabilities)
        self._seed = seed
        self._full = full
        self._folder = folder
        self._progress = progress
        self._told = told
        self._depth: Depth = depth
        self._lock = threading.Lock()
        self._done = 0
        self._leaks: list[CaseOutcome] = []
        self._plays = 0
        self._convicted: list[tuple[CaseOutcome, Scenario]] = []

    def all(self, cases: Sequence[Case], end: float | None) -> tuple[list[CaseOutcome], list[str]]:
        left_out: list[str] = []

        def work(case: Case) -> CaseOutcome | None:
            before = self.kept.ended.get(case.id) if self.kept is not None else None
            if before is not None:
                return self._taken(before)
            if end is not None and time.monotonic() > end:
                left_out.append(case.id)
                return None
            if self._first and case.invariant in self._violated:
                self.spared.append(case.id)
                return None
            outcome = self._one(case)
            with self._lock:
                self._done += 1
                if outcome.outcome == "violated":
                    self._violated.add(case.invariant)
                if self._progress:
                    self._progress(outcome, self._done, len(cases))
            return outcome

        done: dict[str, CaseOutcome | None] = {}
        for tier, mine in (_as_given if self.ordered else _by_tier)(cases):
            turn = mine
            if self._first:
                turn = _in_turn(mine)
            elif end is None and not self.ordered:  # else as many as can be, long ones or not
                turn = _longest_first(mine)
            done |= self._side_by_side(turn, work, None if tier == "process" else _SEARCHES)
        outcomes = [outcome for case in cases if (outcome := done.get(case.id)) is not None]
        if any(case.invariant == "L1" for case in cases) and self._plays:
            outcomes.append(self._every_play())
        return outcomes, left_out

    def _side_by_side(
        self,
        cases: Sequence[Case],
        work: Callable[[Case], CaseOutcome | None],
        most: int | None,
    ) -> dict[str, CaseOutcome | None]:
        """Return the outcomes, by case; as many at a time as the bench has stages, or ``most``."""
        count = self._bench.count
        with concurrent.futures.ThreadPoolExecutor(min(count, most or count)) as pool:
            begun = {case.id: pool.submit(work, case) for case in cases}
            try:
                return {id: each.result() for id, each in begun.items()}
            except BaseException:
                self._bench.abandon()
                raise
            finally:
                pool.shutdown(cancel_futures=True)

    def shrink(self, seconds: float, end: float | None) -> None:
        """Look for smaller scenarios for what was violated."""

        def work(convicted: tuple[CaseOutcome, Scenario]) -> None:
            left = seconds if end is None else min(seconds, end - time.monotonic())
            if left <= 0 or convicted[1].server is not None:  # a play of a server takes as long
                return
            stage = self._bench.take()
            try:
                shrink(*convicted, stage, left, target=self._target)
            finally:
                self._bench.give(stage)

        with concurrent.futures.ThreadPoolExecutor(self._bench.count) as pool:
            begun = [pool.submit(work, each) for each in self._convicted]
            try:
                for each in begun:
                    each.result()
            except BaseException:
                self._bench.abandon()
                raise
            finally:
                pool.shutdown(cancel_futures=True)

    def _one(self, case: Case) -> CaseOutcome:
        stage = self._bench.take()
        case_run = CaseRun(
            case.id,
            stage,
            seed=self._seed,
            full=self._full,
            folder=self._folder,
            target=self._target,
            depth=self._depth,
            device=self._device,
            told=self._told,
            confirms=self.confirms,
            summary=case.summary,
        )
        if self._told is not None:
            self._told(case.id, 0, 0)
        try:
            outcome = self._judged(case_run, case)
            if outcome.outcome == "violated":
                outcome.beyond = disclaimed(self._bench.loaded().disclaimers, case.id, outcome.kind)
        finally:
            self._bench.give(stage)
        leaks: list[CaseOutcome] = []
        for leak in case_run.leaks[:1]:
            leaks.append(CaseOutcome(_EVERY_PLAY, "L1", "violated"))
            cause = f"in {case.id}, {leak.violation.cause}"
            told = msgspec.structs.replace(leak.violation, cause=cause)
            leaks[-1].add(told, leak.replay, leak.place)
            leaks[-1].struck = leak.faults
        with self._lock:
            if case_run.convicted is not None:
                self._convicted.append((outcome, case_run.convicted))
            ended = Ended(outcome, case_run.plays, leaks)
            self._count(ended)
            if self.kept is not None:
                self.kept.note(ended)
        return outcome

    def _taken(self, ended: Ended) -> CaseOutcome:
        """Count the outcome of a case from an earlier part of the run, and return it."""
        with self._lock:
            self._count(ended)
            self._done += 1
            if ended.outcome.outcome == "violated":
                self._violated.add(ended.outcome.invariant)
        return ended.outcome

    def _count(self, ended: Ended) -> None:
        self._plays += ended.plays
        self._leaks += ended.leaks

    def _judged(self, case_run: CaseRun, case: Case) -> CaseOutcome:
        """Judge a case; one that the harness fails at takes no other one with it."""
        try:
            return case_run.judge(case.run, case.needs - self._capabilities)
        except (KillpointError, OSError):
            raise  # of the target as a whole, or of the machine
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            why = f"the harness failed: {type(error).__name__}: {error} ({where.name})"
            case_run.inconclusive(why, by_harness=True)
            return case_run.conclude()

    def _every_play(self) -> CaseOutcome:
        """The same of runs in which other plays leave something: first where nothing was done."""
        leaks = sorted(self._leaks, key=lambda leak: (bool(leak.struck), leak.cause))
        outcome = leaks[0] if leaks else CaseOutcome(_EVERY_PLAY, "L1", "held")
        outcome.struck = None
        outcome.runs = self._plays
        outcome.counts = {"plays": self._plays}
        return outcome
