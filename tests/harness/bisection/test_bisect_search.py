"""The search, told what each candidate says by a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from killpoint.bisection.search import Bracket, Word

WORDS: dict[str, Word] = {"h": "held", "v": "violated", "s": "skipped"}
OPPOSITE = {"h": "v", "v": "h"}


def searched(line: str) -> tuple[Bracket, list[int]]:
    """What a search comes to along a line such as ``hhsv``, and whom it asked."""
    older = "held" if line[0] == "h" else "violated"
    bracket, asked = Bracket.around(len(line), older), list[int]()
    while (middle := bracket.middle()) is not None:
        asked.append(middle)
        bracket = bracket.told(middle, WORDS[line[middle]])
    return bracket, asked


@st.composite
def lines(draw: st.DrawFn, words: str) -> str:
    """Any line whose ends differ."""
    older = draw(st.sampled_from("hv"))
    return older + draw(st.text(words, max_size=60)) + OPPOSITE[older]


@given(lines("hvs"))
def test_what_is_found_differs_and_only_what_was_skipped_is_between(line: str):
    bracket, asked = searched(line)
    assert line[bracket.low] == line[0]
    assert line[bracket.high] == line[-1]
    assert set(line[bracket.low + 1 : bracket.high]) <= {"s"}
    assert len(set(asked)) == len(asked)


@given(lines("hv"))
def test_without_skips_no_more_steps_are_needed_than_were_told_at_first(line: str):
    told = Bracket.around(len(line), "held").steps()
    assert len(searched(line)[1]) <= told
    assert 2 ** max(0, told - 1) <= max(1, len(line) - 2)


@given(lines("hvs"))
def test_a_skip_never_makes_the_rest_longer_than_one_more_step(line: str):
    assert len(searched(line)[1]) <= Bracket.around(len(line), "held").steps() + line.count("s")


@pytest.mark.parametrize("newer", ["h", "v"])
@pytest.mark.parametrize("change", range(1, 10))
def test_a_skip_hides_the_change_only_where_it_stands_beside_it(change: int, newer: str):
    for skipped in range(1, 9):
        line = list(OPPOSITE[newer] * change + newer * (10 - change))
        line[skipped] = "s"
        bracket, _ = searched("".join(line))
        low, high = change - 1, change
        assert bracket.low == (low - 1 if skipped == low else low)
        assert bracket.high == (high + 1 if skipped == high else high)


def test_after_a_skip_the_nearest_neighbours_are_asked_on_both_sides():
    assert searched("vssssssssh")[1][:4] == [5, 4, 6, 3]


def test_two_that_are_neighbours_already_leave_nothing_to_ask():
    bracket, asked = searched("hv")
    assert (bracket.low, bracket.high, asked, bracket.steps()) == (0, 1, [], 0)
