"""Attribution: which finding a violation belongs to, by what ends it in its replay.

A violation is played again with candidates' switch-offs; the one that ends it is its finding. Where
none does so by itself, two or three that do so together are looked for, and it belongs to the
likeliest of them. An entry without a switch-off has words instead that only its mechanism has. A
violation that neither explains is ``new``; one that does not come again, ``not-reproduced``.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Literal

from killpoint.errors import KillpointError
from killpoint.findings.registry import SERVER, Finding, affects, findings
from killpoint.findings.rows import NEW, NO_REGISTRY, UNREPRODUCED, JudgedCase
from killpoint.judgement.replay import play_once
from killpoint.runner.stage import Stage
from killpoint.scenario import Scenario, load
from killpoint.systems.server import target
from killpoint.targets.registry import is_server, resolve, switch_offs_of, switched_off
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS
from killpoint.targets.vllm.switch_offs.servers import switchable
from killpoint.verdict import CaseViolation, counted

_TRIES = 3
"""Plays that a violation is given to show itself once more."""
_MOST_TRIES = 6
"""Plays that it is given to show itself twice: its rate says how much a play without it is
worth."""
_BY_CHANCE = 0.05
"""Probability with which an intermittent violation may stay away in as many plays as count for
one."""
_MOST_PLAYS = 12
_LIKELY = 3
"""Candidates that are tried one by one, before the others are searched."""
_EXPECTED = 2
_SURE = 3
"""Times more that a violation stays away before that counts, with what something else points
to, and with what nothing does."""
_ASK = "with --attribution it is played again without known bugs"
_BY_WORDS = "by the words of its mechanism, which no other has"
_TOGETHER = 3
"""Findings that a violation may have together."""
_IDLE = 2
"""Stages that are kept for the next violation, for each of those that are settled at a time."""

Says = Literal["shows", "held", "nothing"]
"""Result of a play for a violation; ``nothing``, where it did not come to its point."""
Off = tuple[str, ...]


def without(spec: str, findings: Sequence[str]) -> str:
    """The spec of a target with these findings' bugs taken out; ``known`` stands for all.

    Raises:
        BadUsage: one has no switch-off, or the target is of a kind that has none.
    """
    wanted = set(findings)
    if "known" in wanted:
        wanted = wanted - {"known"} | set(_switchable(spec))
    return switched_off(spec, sorted(wanted))


def entries_of(spec: str) -> list[Finding]:
    """Return the registry's entries of a target; none of the reference, nor of a user's own module.

    For vLLM's server, they are those of a whole server, and those of its parts by themselves.
    """
    projects = projects_of(spec)
    return [each for each in findings().values() if projects & {*each.projects}]


def projects_of(spec: str) -> set[str]:
    """Return the projects whose code a target is, as entries name them."""
    if is_server(spec):
        return {SERVER, "vllm"} if target.is_vllm(spec) else set()
    return {re.split("[=@~]", spec)[0]}


def _switchable(spec: str) -> list[str]:
    """The findings that can be switched off in targets of this kind."""
    return switchable() if is_server(spec) else [*SWITCH_OFFS]


def release_of(spec: str) -> str:
    """The release that a target's spec names; empty if it names none."""
    return target.release(spec) if is_server(spec) else re.split("==|@", f"{spec}==")[1]


class _Leaving(Exception):
    """Raised after an interrupt: nothing more is played."""


class Attribution:
    """Plays a run's violations again with switch-offs. Use as a context manager.

    Args:
        spec: the target, as after ``--target``.
        tell: is given a line on each violation as it is settled.
        plays: else words alone decide, and a violation that no entry has words for is attributed
            to none.
    """

    def __init__(
        self, spec: str, tell: Callable[[str], None] = lambda _: None, *, plays: bool = True
    ) -> None:
        self._may_play = plays
        self._known = entries_of(spec)
        self._spec = resolve(spec) if self._known else spec
        self._projects = projects_of(spec)
        self._release = release_of(self._spec.partition("~")[0])
        self._tell = tell
        self._lock = threading.Lock()
        self._idle: list[tuple[Off, Stage]] = []
        self._in_use: list[Stage] = []
        self._kept = _IDLE
        self._leaving = threading.Event()

    @property
    def plays(self) -> bool:
        """True if anything is to be played: the registry knows of this target."""
        return bool(self._known) and self._may_play

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

    def of_cases(
        self, cases: Iterable[JudgedCase], jobs: int = 1, end: float | None = None
    ) -> None:
        """Say of each violation whose it is. Interrupted, it ends the plays that are under way.

        Violations that are likely the same bug's come one after the other: they share stages.

        Args:
            jobs: how many are settled at a time.
            end: of the monotonic clock; what has not been begun by then stays without a finding.
        """
        asked = [(case.id, violation) for case in cases for violation in case.violations]
        asked.sort(key=lambda each: self._candidates(*each)[:1])
        self._kept = _IDLE * max(1, jobs)

        def work(each: tuple[str, CaseViolation]) -> None:
            if end is not None and time.monotonic() > end:
                each[1].how = "not attributed: the budget was spent"
                return
            try:
                self.of(*each)
            except _Leaving:
                return
            except (KillpointError, OSError) as error:
                each[1].how = f"not attributed: {error}"
                self._tell(f"{each[0]}: {each[1].kind}: {each[1].how}")

        with ThreadPoolExecutor(max(1, jobs)) as pool:
            begun = [pool.submit(work, each) for each in asked]
            try:
                for each in begun:
                    each.result()
            except BaseException:
                self._leave()
                raise
            finally:
                pool.shutdown(cancel_futures=True)

    def _leave(self) -> None:
        with self._lock:
            self._leaving.set()
            for stage in self._in_use:
                stage.abandon()

    def of(self, case: str, violation: CaseViolation) -> None:
        """Say of one violation whose it is, and what decided that."""
        if self._known and not self._may_play:
            self._told(violation)
            return
        violation.finding, violation.how = self._settled(case, violation)
        if self._known:
            said = f"{violation.finding} ({violation.how})"
            self._tell(f"{case}: {violation.kind}: {said}")

    def _told(self, violation: CaseViolation) -> None:
        """Attribute a violation by its words alone, if an entry has them."""
        able = [each for each in self._known if self._may(each)]
        told = [each for each in able if _tells(each, violation)]
        known = [each for each in able if _is_like(each, violation)]
        if told or known:
            violation.finding = (told or known)[0].id
            violation.how = _BY_WORDS if told else f"by its words alone; {_ASK}"
        else:
            violation.how = f"no finding has its words; {_ASK}"

    def _settled(self, case: str, violation: CaseViolation) -> tuple[str, str]:
        if not self._known:
            return NEW, NO_REGISTRY
        told = [each for each in self._known if self._may(each) and _tells(each, violation)]
        if told:
            return told[0].id, _BY_WORDS
        if violation.replay is None or not Path(violation.replay).is_file():
            return NEW, "it has no file that plays it again"
        scenario = load(Path(violation.replay))
        plays = self._comes_again(scenario, violation)
        if not plays:
            return UNREPRODUCED, f"{_TRIES} plays did not show it again ({_seen(violation)})"
        return self._ended_by(scenario, case, violation, plays)

    def _may(self, entry: Finding) -> bool:
        """Return whether the release can have it, as far as measured; a tree is like the newest."""
        return entry.projects[0] not in self._projects or affects(entry, self._release)

    def _comes_again(self, scenario: Scenario, violation: CaseViolation) -> int:
        """Return how many plays it is to be given to show itself, by its rate; 0: it did not."""
        shown = tries = 0
        while shown < 2 and tries < (_MOST_TRIES if shown else _TRIES):
            tries += 1
            shown += self._plays(scenario, violation, ()) == "shows"
        if shown in (0, tries):
            return min(shown, 1)
        enough = math.log(_BY_CHANCE) / math.log(1 - shown / tries)
        return min(math.ceil(enough), _MOST_PLAYS)

    def _ended_by(
        self, scenario: Scenario, case: str, violation: CaseViolation, plays: int
    ) -> tuple[str, str]:
        """The first of the likely candidates that ends it, else those that the others lead to.

        ``plays``: how many a violation is given to show itself, since it does not always do so.
        """
        candidates = self._candidates(case, violation)

        def says(off: Sequence[str], *, confirms: bool = True) -> Says:
            said: Says = "nothing"
            for _ in range(plays):
                said = self._plays(scenario, violation, off, confirms=confirms)
                if said == "shows":
                    break
            return said

        def surely(off: Sequence[str]) -> bool:
            """Return whether it is no chance that a violation stayed away once with these off."""
            expected = any(self._expects(each, case, violation) for each in off)
            stays = all(says(off) != "shows" for _ in range(_EXPECTED if expected else _SURE))
            return stays and (expected or says(()) == "shows")

        silent: list[str] = []
        for each in candidates[:_LIKELY]:
            said = says((each,), confirms=False)  # one that is taken for wrong here is searched for
            if said == "nothing":
                said = says((each,))
            if said == "held" and surely((each,)):
                return each, "its switch-off ends it"
            silent += [each] * (said == "nothing")
        if silent:
            return silent[0], "with its switch-off its point is not reached any more"
        whole = says(candidates) if candidates else "shows"
        if whole == "shows":
            return NEW, "it is there with every known finding switched off"
        ended = ("held",) if whole == "held" else ("held", "nothing")
        needed = _needed(candidates, lambda off: says(off) in ended)
        if not needed:
            return NEW, f"no {_TOGETHER} findings' switch-offs end it"
        mine, *others = sorted(needed, key=candidates.index)
        if not surely(needed):
            goes = says(()) != "shows"
            words = "it comes and goes: no switch-off was seen to end it again"
            return UNREPRODUCED if goes else NEW, words
        if whole == "nothing":
            those = " and ".join(["its switch-off", *(f"that of {each}" for each in others)])
            return mine, f"with {those} its point is not reached any more"
        if not others:
            return mine, "its switch-off ends it"
        names = " and ".join(others)
        return mine, f"its switch-off ends it together with that of {names}, and none alone does"

    @cached_property
    def _switchable(self) -> frozenset[str]:
        """Findings whose switch-off changes this target: another one would be tried for nothing."""
        return frozenset(switch_offs_of(self._spec))

    def _candidates(self, case: str, violation: CaseViolation) -> list[str]:
        """Return findings with a switch-off, the likeliest first: the same ones in every run."""
        text = " ".join((violation.cause, *violation.evidence))
        able = [each for each in self._known if each.id in self._switchable]
        able.sort(key=lambda each: -_near(each, case, violation, text))
        return [each.id for each in able]

    def _expects(self, id: str, case: str, violation: CaseViolation) -> bool:
        """Return whether more than plays point to it: its exhibit, its place, what it breaks."""
        entry = next(each for each in self._known if each.id == id)
        likely = _of_its_kind(entry, case, violation) or _at(entry, violation)
        return likely or case == entry.exhibit

    def _plays(
        self,
        scenario: Scenario,
        violation: CaseViolation,
        off: Sequence[str],
        *,
        confirms: bool = True,
    ) -> Says:
        """Return what a play with these switched off says of a violation of that kind.

        Args:
            confirms: with something off, a violation that rests on time counts only if it comes
                again in a play alone, which others have to wait for; else it counts at once.
        """
        if self._leaving.is_set():
            raise _Leaving
        key = tuple(sorted(off))
        with self._stage(key) as stage:
            spec = switched_off(self._spec, key)
            played = play_once(stage, scenario, spec, confirms=confirms and bool(off))
        if any(each.is_like(violation) for one in played.outcomes for each in one.violations):
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
        with self._lock:
            self._in_use.append(stage)
            if self._leaving.is_set():
                stage.abandon()
        try:
            yield stage
        finally:
            with self._lock:
                self._in_use.remove(stage)
                self._idle.append((off, stage))
                spare = self._idle[: -self._kept]
                del self._idle[: -self._kept]
            for _, each in spare:
                each.close()


def _seen(violation: CaseViolation) -> str:
    """Return how often it was seen, such as ``seen in 1 play, 1 of 2 alone``."""
    alone = f", {violation.alone[0]} of {violation.alone[1]} alone" if violation.alone else ""
    return f"seen in {counted(violation.plays, 'plays')}{alone}"


def _needed(candidates: list[str], ends: Callable[[Sequence[str]], bool]) -> list[str]:
    """The fewest candidates that end it together; nothing, if they are more than a few.

    All of them end it. The last one of the shortest row of candidates that does so is needed; with
    it at hand, so is the last one of the shortest row that now does so, until no more is missing.
    """
    needed: list[str] = []
    row = len(candidates)
    while len(needed) < _TOGETHER:
        low = 1
        while low < row:
            middle = (low + row) // 2
            if ends([*needed, *candidates[:middle]]):
                row = middle
            else:
                low = middle + 1
        needed.append(candidates[row - 1])
        if ends(needed):
            return _without_chance(needed, ends)
        row -= 1
        if row < 1:
            break
    return []


def _without_chance(needed: list[str], ends: Callable[[Sequence[str]], bool]) -> list[str]:
    """Remove findings that are not needed: a play that showed it by chance may have added one."""
    for each in needed:
        others = [other for other in needed if other != each]
        if others and ends(others):
            return _without_chance(others, ends)
    return needed


def _tells(entry: Finding, violation: CaseViolation) -> bool:
    return any(re.search(words, violation.cause) for words in entry.told_as)


def _is_like(entry: Finding, violation: CaseViolation) -> bool:
    return any(re.search(words, violation.cause) for words in entry.known_by)


def _near(entry: Finding, case: str, violation: CaseViolation, text: str) -> int:
    """Return a score of how likely an entry is: by exhibit, kind, place, and names in the text."""
    own = entry.place
    names = (own.file.rpartition("/")[2], own.function, own.function.rpartition(".")[2])
    score = sum(bool(name) and name in text for name in names)
    score += 2 * _at(entry, violation)
    score += 4 * _of_its_kind(entry, case, violation)
    score += case.partition("/")[0] == entry.exhibit.partition("/")[0]
    return score + 8 * (case == entry.exhibit)


def _of_its_kind(entry: Finding, case: str, violation: CaseViolation) -> bool:
    return f"{case.partition('/')[0]} {violation.kind}" in entry.breaks


def _at(entry: Finding, violation: CaseViolation) -> bool:
    place, own = violation.place, entry.place
    return place is not None and (place.file, place.function) == (own.file, own.function)
