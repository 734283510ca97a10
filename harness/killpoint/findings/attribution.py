"""Attribution: which finding a violation belongs to, by what ends it in its replay.

A violation is played again with candidates' switch-offs; the one that ends it is its finding. An
entry without a switch-off has words instead that its mechanism alone is told in. What neither
explains is ``new``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from killpoint.findings.registry import Finding, Place, findings
from killpoint.replay import play_once
from killpoint.report.stored import StoredRun
from killpoint.scenario import Scenario, load
from killpoint.stage.stage import Stage
from killpoint.targets.registry import resolve, switched_off
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS
from killpoint.verdict import CaseViolation

NEW = "new"
_TRIES = 3
"""Plays that a violation is given to show itself once more."""
_LINE = re.compile(r"(?:\b([\w.]+) )?\(?([\w./-]+\.py):(\d+)")


def without(spec: str, findings: Sequence[str]) -> str:
    """The spec of a target with these findings' bugs taken out; ``known`` stands for all.

    Raises:
        BadUsage: one has no switch-off, or the target is of a kind that has none.
    """
    wanted = set(findings)
    if "known" in wanted:
        wanted = wanted - {"known"} | set(SWITCH_OFFS)
    return switched_off(spec, sorted(wanted))


class TargetLine(msgspec.Struct, frozen=True):
    """A line of the target's own code."""

    file: str
    function: str
    line: int


class Attributed(msgspec.Struct):
    """One violation, and whose it is."""

    case: str
    violation: CaseViolation
    finding: str
    """An entry's id, or ``new``."""
    how: str
    """What decided it, in words."""
    place: TargetLine | None


def target_line(violation: CaseViolation) -> TargetLine | None:
    """The first line of the target's that its cause names, or the lines that show it."""
    for text in (violation.cause, *violation.evidence):
        found = _LINE.search(text)
        if found is not None:
            return TargetLine(found[2], found[1] or "", int(found[3]))
    return None


class Attribution:
    """Plays a run's violations again with switch-offs. Use as a context manager.

    Args:
        spec: the target, as after ``--target``.
        tell: is given a line on each violation as it is settled.
    """

    def __init__(self, spec: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self._spec = resolve(spec)
        self._tell = tell
        self._stages: dict[tuple[str, ...], Stage] = {}
        project = re.split("[=@~:]", spec)[0]
        self._known = [each for each in findings().values() if project in each.projects]

    def __enter__(self) -> Attribution:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for stage in self._stages.values():
            stage.close()

    def of_run(self, run: StoredRun) -> Iterator[Attributed]:
        """Each violation of a run, settled one after the other."""
        for case in run.cases():
            for violation in case.violations:
                settled = self.of(case.id, violation)
                self._tell(f"{case.id}: {violation.kind}: {settled.finding} ({settled.how})")
                yield settled

    def of(self, case: str, violation: CaseViolation) -> Attributed:
        """Whose one violation is."""
        id, how = self._settled(violation)
        return Attributed(case, violation, id, how, target_line(violation))

    def _settled(self, violation: CaseViolation) -> tuple[str, str]:
        told = [each for each in self._known if _tells(each, violation)]
        if told:
            return told[0].id, "by the words of its mechanism, which no other has"
        if violation.replay is None or not Path(violation.replay).is_file():
            return NEW, "it has no file that plays it again"
        scenario = load(Path(violation.replay))
        candidates = self._candidates(violation)
        if not any(self._shows(scenario, violation, ()) for _ in range(_TRIES)):
            return NEW, f"{_TRIES} plays did not show it again"
        for each in candidates[:_LIKELY]:
            if not self._shows(scenario, violation, (each,)):
                return each, "its switch-off ends it"
        rest = candidates[_LIKELY:]
        if not rest or self._shows(scenario, violation, rest):
            return NEW, "it is there with every known finding switched off"
        while len(rest) > 1:
            half = rest[: len(rest) // 2]
            rest = rest[len(half) :] if self._shows(scenario, violation, half) else half
        if self._shows(scenario, violation, rest):
            return NEW, "no one finding's switch-off ends it"
        return rest[0], "its switch-off ends it"

    def _candidates(self, violation: CaseViolation) -> list[str]:
        """Those with a switch-off, the likeliest first: whose place the violation names."""
        text = " ".join((violation.cause, *violation.evidence))
        able = [each for each in self._known if each.id in SWITCH_OFFS]
        return [each.id for each in sorted(able, key=lambda each: -_near(each.place, text))]

    def _shows(self, scenario: Scenario, violation: CaseViolation, off: Sequence[str]) -> bool:
        """Whether a play with these switched off shows a violation of that kind."""
        key = tuple(sorted(off))
        spec = switched_off(self._spec, key)
        if key not in self._stages:
            self._stages[key] = Stage(spec)
        played = play_once(self._stages[key], scenario, spec)
        return any(each.kind == violation.kind for each in played.outcomes)


_LIKELY = 3
"""Candidates that are tried one by one, before the others are halved."""


def _tells(entry: Finding, violation: CaseViolation) -> bool:
    return any(re.search(words, violation.cause) for words in entry.told_as)


def _near(place: Place, text: str) -> int:
    """How many names of a place a text has."""
    names = (place.file.rpartition("/")[2], place.function, place.function.rpartition(".")[2])
    return sum(bool(name) and name in text for name in names)
