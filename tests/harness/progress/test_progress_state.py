"""A run as those who wait see it: what is done, what goes on, and how long it may take."""

from __future__ import annotations

import pytest

from killpoint.durations import Expected
from killpoint.progress import text
from killpoint.progress.progress_state import Score
from killpoint.verdict import CaseOutcome, CaseWord


class Clock:
    """Time that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def score(clock: Clock) -> Score:
    """Ten cases of 40 s, four at a time: 100 s of the machine."""
    return Score({f"R3/{n}": Expected(40.0, 10.0) for n in range(10)}, clock)


def _ends(score: Score, case: str, word: CaseWord = "held") -> None:
    score.ended(CaseOutcome(case, "R3", word))


def test_before_anything_has_ended_the_measured_durations_are_believed(score: Score) -> None:
    assert score.left() == pytest.approx(100.0)


def test_a_machine_half_as_fast_is_seen_to_be(score: Score, clock: Clock) -> None:
    for number in range(5):
        _ends(score, f"R3/{number}")
    clock.now += 100.0
    assert score.left() == pytest.approx(50.0 * 120 / 70)


def test_what_goes_on_counts_for_its_age_and_is_waited_for(score: Score, clock: Clock) -> None:
    for number in range(9):
        _ends(score, f"R3/{number}")
    score.told("R3/9", 0, 0)
    clock.now += 10.0
    assert score.left() == pytest.approx(30.0)


def test_a_case_that_takes_longer_than_ever_leaves_little_and_never_less_than_nothing(
    score: Score, clock: Clock
) -> None:
    for number in range(9):
        _ends(score, f"R3/{number}")
    score.told("R3/9", 0, 0)
    clock.now += 1000.0
    assert 0 < score.left() < 10


def test_when_all_have_ended_nothing_is_left(score: Score) -> None:
    for number in range(10):
        _ends(score, f"R3/{number}")
    assert score.left() == 0.0


def test_a_sweep_tells_its_points_and_their_rate_since_they_were_counted(
    score: Score, clock: Clock
) -> None:
    score.told("R3/0", 0, 0)
    clock.now += 7.0
    score.told("R3/0", 0, 12)
    clock.now += 4.0
    score.told("R3/0", 8, 12)
    assert text.longest(score) == "R3/0 since 11 s (8 of 12 points, 2.0/s)"


def test_the_headline_counts_cases_and_violations(score: Score, clock: Clock) -> None:
    _ends(score, "R3/0", "violated")
    _ends(score, "R3/1")
    clock.now += 65.0
    assert text.headline(score).startswith("2/10 cases, 1 violated, 1 min 05 s, about ")


def test_what_has_ended_goes_on_no_more(score: Score) -> None:
    score.told("R3/0", 1, 2)
    score.told("R3/1", 0, 0)
    _ends(score, "R3/0")
    assert [each.id for each in score.running()] == ["R3/1"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "0 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")],
)
def test_spans_are_said_as_people_do(seconds: float, said: str) -> None:
    assert text.span(seconds) == said
