"""Attribution: which finding a violation belongs to, by what ends it in its replay.

A violation is played again with candidates' switch-offs; the one that ends it is its finding. An
entry without a switch-off has words instead that its mechanism alone is told in. What neither
explains is ``new``.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal

from killpoint.errors import KillpointError
from killpoint.findings.registry import Finding, findings
from killpoint.findings.rows import NEW, NO_REGISTRY, Case
from killpoint.replay import play_once
from killpoint.scenario import Scenario, load
from killpoint.stage.stage import Stage
from killpoint.targets.registry import resolve, switched_off
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS
from killpoint.verdict import CaseViolation

_TRIES = 3
"""Plays that a violation is given to show itself once more."""
_LIKELY = 3
"""Candidates that are tried one by one, before the others are halved."""
_IDLE = 6
"""Stages that are kept for the next violation."""

Says = Literal["shows", "held", "nothing"]
"""What a play says of a violation; nothing, where it did not come to its point."""
Off = tuple[str, ...]


def without(spec: str, findings: Sequence[str]) -> str:
    """The spec of a target with these findings' bugs taken out; ``known`` stands for all.

    Raises:
        BadUsage: one has no switch-off, or the target is of a kind that has none.
    """
    wanted = set(findings)
    if "known" in wanted:
        wanted = wanted - {"known"} | set(SWITCH_OFFS)
    return switched_off(spec, sorted(wanted))


def entries_of(spec: str) -> list[Finding]:
    """What the registry has of a target; nothing of the reference, nor of anybody's own module."""
    project = re.split("[=@~]", spec)[0]
    return [each for each in findings().values() if project in each.projects]


class Attribution:
    """Plays a run's violations again with switch-offs. Use as a context manager.

    Args:
        spec: the target, as after ``--target``.
        tell: is given a line on each violation as it is settled.
    """

    def __init__(self, spec: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self._known = entries_of(spec)
        self._spec = resolve(spec) if self._known else spec
        self._tell = tell
        self._lock = threading.Lock()
        self._idle: list[tuple[Off, Stage]] = []

    @property
    def plays(self) -> bool:
        """Whether anything is to be played: the registry knows of this target."""
        return bool(self._known)

    def __enter__(self) -> Attribution:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for _, stage in self._idle:
            stage.close()

    def of_cases(self, cases: Iterable[Case], jobs: int = 1, end: float | None = None) -> None:
        """Say of each violation whose it is.

        Args:
            jobs: how many are settled at a time.
            end: of the monotonic clock; what has not been begun by then stays without a finding.
        """
        asked = [(case.id, violation) for case in cases for violation in case.violations]

        def work(each: tuple[str, CaseViolation]) -> None:
            if end is not None and time.monotonic() > end:
                each[1].how = "not attributed: the budget was spent"
                return
            try:
                self.of(*each)
            except (KillpointError, OSError) as error:
                each[1].how = f"not attributed: {error}"
                self._tell(f"{each[0]}: {each[1].kind}: {each[1].how}")

        with ThreadPoolExecutor(max(1, jobs)) as pool:
            begun = [pool.submit(work, each) for each in asked]
            try:
                for each in begun:
                    each.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def of(self, case: str, violation: CaseViolation) -> None:
        """Say of one violation whose it is, and what decided that."""
        violation.finding, violation.how = self._settled(case, violation)
        if self._known:
            said = f"{violation.finding} ({violation.how})"
            self._tell(f"{case}: {violation.kind}: {said}")

    def _settled(self, case: str, violation: CaseViolation) -> tuple[str, str]:
        if not self._known:
            return NEW, NO_REGISTRY
        told = [each for each in self._known if _tells(each, violation)]
        if told:
            return told[0].id, "by the words of its mechanism, which no other has"
        if violation.replay is None or not Path(violation.replay).is_file():
            return NEW, "it has no file that plays it again"
        scenario = load(Path(violation.replay))
        if all(self._plays(scenario, violation, ()) != "shows" for _ in range(_TRIES)):
            return NEW, f"{_TRIES} plays did not show it again"
        return self._ended_by(scenario, violation, self._candidates(case, violation))

    def _ended_by(
        self, scenario: Scenario, violation: CaseViolation, candidates: list[str]
    ) -> tuple[str, str]:
        """The first of the likely candidates that ends it, else the one that the others lead to."""
        silent: list[str] = []
        for each in candidates[:_LIKELY]:
            said = self._plays(scenario, violation, (each,))
            if said == "held":
                return each, "its switch-off ends it"
            silent += [each] * (said == "nothing")
        if silent:
            return silent[0], "its switch-off ends it, and its point is not reached then"
        rest = candidates[_LIKELY:]
        if not rest or self._plays(scenario, violation, rest) == "shows":
            return NEW, "it is there with every known finding switched off"
        while len(rest) > 1:
            half = rest[: len(rest) // 2]
            shows = self._plays(scenario, violation, half) == "shows"
            rest = rest[len(half) :] if shows else half
        if self._plays(scenario, violation, rest) == "shows":
            return NEW, "no one finding's switch-off ends it"
        return rest[0], "its switch-off ends it"

    def _candidates(self, case: str, violation: CaseViolation) -> list[str]:
        """Those with a switch-off, the likeliest first: whose exhibit it is, or whose place."""
        text = " ".join((violation.cause, *violation.evidence))
        able = [each for each in self._known if each.id in SWITCH_OFFS]
        able.sort(key=lambda each: -_near(each, case, violation, text))
        return [each.id for each in able]

    def _plays(self, scenario: Scenario, violation: CaseViolation, off: Sequence[str]) -> Says:
        """What a play with these switched off says of a violation of that kind.

        With something off, what rests on time is told only if it comes again in a play alone.
        """
        key = tuple(sorted(off))
        with self._stage(key) as stage:
            spec = switched_off(self._spec, key)
            played = play_once(stage, scenario, spec, confirms=bool(off))
        if any(each.kind == violation.kind for each in played.outcomes):
            return "shows"
        return "nothing" if played.ending == "not-reached" else "held"

    @contextmanager
    def _stage(self, off: Off) -> Generator[Stage]:
        """A stage for one play; the last few that were used wait for the next one."""
        with self._lock:
            waiting = next((each for each in self._idle if each[0] == off), None)
            if waiting is not None:
                self._idle.remove(waiting)
        stage = waiting[1] if waiting is not None else Stage(switched_off(self._spec, off))
        try:
            yield stage
        finally:
            with self._lock:
                self._idle.append((off, stage))
                spare = self._idle[:-_IDLE]
                del self._idle[:-_IDLE]
            for _, each in spare:
                each.close()


def _tells(entry: Finding, violation: CaseViolation) -> bool:
    return any(re.search(words, violation.cause) for words in entry.told_as)


def _near(entry: Finding, case: str, violation: CaseViolation, text: str) -> int:
    """How likely an entry is: its exhibit, the place, then how many names of its place are told."""
    place, own = violation.place, entry.place
    names = (own.file.rpartition("/")[2], own.function, own.function.rpartition(".")[2])
    score = sum(bool(name) and name in text for name in names)
    if place is not None:
        score += 2 * ((place.file, place.function) == (own.file, own.function))
    return score + 8 * (case == entry.exhibit)
