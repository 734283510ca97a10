"""Mutants on trial: each is planted in a forked child that runs the tests which could notice."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mechanical.changes import Change, planted
from mechanical.control import Control
from mechanical.job_processes import Ended, JobProcesses
from mechanical.planting import plant
from mechanical.session import Teller, run

Word = Literal["killed", "survived", "timed-out", "not-covered"]
_AROUND = 60.0
"""Seconds for what is before, between and after tests: imports, on a machine that is busy."""
_FIRST = 8
"""Tests whose files are collected first: most mutants do not outlive them."""


class Fate(msgspec.Struct):
    """What became of one mutant."""

    file: str
    scope: str
    line: int
    operator: str
    old: str
    new: str
    word: Word
    by: str = ""
    """The test that killed it."""
    why: str = ""
    tests: int = 0
    """How many tests touch its statement."""
    seconds: float = 0.0

    @property
    def caught(self) -> bool:
        """Whether somebody noticed."""
        return self.word in ("killed", "timed-out")


class Case(msgspec.Struct):
    """One mutant with the tests that will be run against it."""

    change: Change
    tests: list[str]


def allowance(seconds: float) -> float:
    """How long a test may take of which the control took so many seconds."""
    return 5 * seconds + 2


def try_all(
    changes: Iterable[Change],
    control: Control,
    root: Path,
    jobs: int,
    go_on: Callable[[], bool] = lambda: True,
) -> Iterator[tuple[Change, Fate]]:
    """Each change with its fate, as they become known, until ``go_on`` says no."""
    preload(control.modules)
    killers: dict[tuple[str, str], list[str]] = {}

    def work(case: Case, out: int) -> None:
        change = case.change
        plant(lambda _, source: planted(source, change), {change.file})
        for batch in (case.tests[:_FIRST], case.tests[_FIRST:]):
            teller = Teller(out, batch, None)
            if batch and not run(teller, root, _files(batch), to_the_end=False):
                break
        teller.end()

    def allowed(case: Case, test: str | None) -> float:
        return _AROUND if test is None else allowance(control.tests[test].seconds)

    def covered() -> Iterator[Case]:
        for change in changes:
            if not go_on():
                return
            tests = control.tests_for(change)
            if tests:
                known = killers.get((change.file, change.scope), [])
                yield Case(change, telling_first(tests, known, control))
            else:
                uncovered.append(change)

    uncovered: list[Change] = []
    for case, ended in JobProcesses(work, allowed, jobs).run(covered()):
        fate = judged(case, ended)
        if fate.by in control.tests:
            killers.setdefault((fate.file, fate.scope), []).append(fate.by)
        yield case.change, fate
    for change in uncovered:
        yield change, _fate(change, "not-covered")


def telling_first(tests: Sequence[str], known: Sequence[str], control: Control) -> list[str]:
    """The tests with those first that caught a neighbour of this mutant, if they are quick."""
    quick = [name for name in dict.fromkeys(reversed(known)) if control.tests[name].seconds < 1]
    first = [name for name in quick if name in set(tests)][:3]
    return [*first, *(name for name in tests if name not in first)]


def judged(case: Case, ended: Ended) -> Fate:
    """What a child's words and its end say of its mutant."""
    fate = _fate(case.change, "survived")
    fate.tests, fate.seconds = len(case.tests), round(ended.seconds, 2)
    for line in ended.told:
        if line["did"] == "end" and line["failed"]:
            fate.word, fate.by, fate.why = "killed", line["test"], line["why"]
            return fate
        if line["did"] == "broke":
            fate.word, fate.why = "killed", line["why"].strip().splitlines()[-1]
            return fate
    if ended.overdue:
        fate.word, fate.by, fate.why = "timed-out", ended.overdue, "it did not end in time"
    elif not ended.whole:
        fate.word, fate.why = "killed", "the process of the tests died"
        fate.by = next((line["test"] for line in reversed(ended.told) if "test" in line), "")
    return fate


def preload(modules: Iterable[str]) -> None:
    """Import what each child would import for itself, and keep it out of their collectors' way."""
    plugins = [entry.value for entry in importlib.metadata.entry_points(group="pytest11")]
    for name in (*modules, *plugins):
        with contextlib.suppress(Exception):  # it costs each child a little time, no more
            importlib.import_module(name)
    gc.freeze()


def _files(tests: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))


def _fate(change: Change, word: Word) -> Fate:
    return Fate(
        change.file,
        change.scope,
        change.line,
        change.operator,
        change.old,
        change.new,
        word,
    )
