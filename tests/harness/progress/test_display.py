"""Who looks on sees a run go on; a log gets violations, and a line a minute at most."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pexpect
import pytest
from rich.console import Console

from killpoint.durations import Expected
from killpoint.progress.counting import Steps, counting
from killpoint.progress.display import Watcher, watching
from killpoint.progress.progress_state import Score
from killpoint.verdict import CaseOutcome


class Log:
    """A run of three cases that is told to a file, at times that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.file = io.StringIO()
        self.score = Score({f"R3/{n}": Expected(9.0, 3.0) for n in "abc"}, lambda: self.now)

    def lines(self, *news: tuple[float, str]) -> list[str]:
        """Told at each time of the begin or end (``-…``) of a case."""
        with watching(Console(file=self.file), self.score) as watcher:
            for self.now, what in news:
                _tell(watcher, what)
        return self.file.getvalue().splitlines()


def _tell(watcher: Watcher, what: str) -> None:
    if not what.startswith("-"):
        watcher.told(f"R3/{what}", 0, 0)
        return
    outcome = CaseOutcome(f"R3/{what[1]}", "R3", "held")
    if what.endswith("!"):
        outcome.outcome, outcome.kind, outcome.cause = "violated", "lost", "it is gone [b]"
        outcome.replay = "runs/x/replays/R3.toml"
    watcher.ended(outcome, 0, 0)


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_run_that_is_soon_over_writes_nothing_to_a_log(log: Log) -> None:
    assert log.lines((0, "a"), (20, "-a"), (30, "b"), (59, "-b")) == []


def test_a_long_run_writes_a_line_a_minute(log: Log) -> None:
    lines = log.lines((0, "a"), (61, "b"), (70, "-a"), (120, "c"), (122, "-b"))
    assert [line.partition(", about")[0] for line in lines] == [
        "0/3 cases, 0 violated, 1 min 01 s",
        "2/3 cases, 0 violated, 2 min 02 s",
    ]
    assert lines[0].endswith("; R3/a since 1 min 01 s")


def test_a_violation_is_written_at_once_with_its_replay(log: Log) -> None:
    assert log.lines((0, "a"), (1, "-a!")) == [
        "✗ R3/a: lost: it is gone [b]",
        "  killpoint replay runs/x/replays/R3.toml",
    ]


def test_the_last_case_is_followed_by_the_card_and_not_by_a_line(log: Log) -> None:
    assert log.lines((0, "a"), (1, "-a"), (2, "-b"), (99, "-c")) == []


def test_at_a_terminal_the_cases_that_go_on_are_seen_with_their_points(tmp_path: Path) -> None:
    case = "R3/stopped-anywhere"
    asked = ["check", "--only", case, "--jobs", "1", "--out", str(tmp_path)]
    run = pexpect.spawn(
        sys.executable,
        ["-m", "killpoint.cli", *asked],
        dimensions=(24, 100),
        encoding="utf-8",
        timeout=120,  # plays of other tests that are alone on the machine go first
    )
    run.expect(r"0/1 cases, 0 violated, \d+ s, about \d+ s left")
    run.expect(case + r" +\d+ s +\d of \d+ points")
    run.expect("R3 +MUST")
    run.expect(pexpect.EOF)
    run.close()
    assert run.exitstatus in (0, 3)  # 3: a line that not every call comes to was not struck


def test_a_bench_tells_the_time_left_at_the_pace_so_far() -> None:
    now = iter([0.0, 10.0, 20.0])
    steps = Steps(lambda: next(now))
    assert steps.line("loading x", 0, 0) == "loading x"
    assert steps.line("calls", 0, 4) == "1 of 4: calls"
    assert steps.line("calls", 1, 4) == "2 of 4: calls, about 30 s left"


def test_a_bench_whose_words_go_to_a_file_writes_none_there() -> None:
    file = io.StringIO()
    with counting(Console(file=file)) as tell:
        tell("calls", 1, 4)
    assert file.getvalue() == ""
