"""Where a text ends at a stop string does not depend on the pieces in which it came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refengine.serving.stop import StopFinder


def _given(pieces: list[str], *stops: str) -> tuple[list[str], bool]:
    finder = StopFinder(stops)
    return [*(finder.push(piece) for piece in pieces), finder.end()], finder.stopped


@pytest.mark.parametrize(
    ("pieces", "stops", "given", "stopped"),
    [
        (["a", "b"], (), ["a", "b", ""], False),
        (["ab.", "cd"], (".",), ["ab", "", ""], True),
        (["a", "\n", "\n", "b"], ("\n\n",), ["a", "", "", "", ""], True),
        (["a", "\n", "b"], ("\n\n",), ["a", "", "\nb", ""], False),
        (["a\n"], ("\n\n",), ["a", "\n"], False),
        (["xab", "abc"], ("ababc",), ["x", "", ""], True),
        (["abc"], ("abc", "b"), ["a", ""], True),
        (["aabaa", "b"], ("aab",), ["", "", ""], True),
    ],
)
def test_nothing_of_a_stop_string_is_given(
    pieces: list[str], stops: tuple[str, ...], given: list[str], stopped: bool
) -> None:
    assert _given(pieces, *stops) == (given, stopped)


_TEXT = st.text("ab", max_size=12)
_STOPS = st.lists(st.text("ab", min_size=1, max_size=3), max_size=3)


@given(text=_TEXT, stops=_STOPS)
def test_the_text_ends_before_the_stop_string_that_is_complete_first(
    text: str, stops: list[str]
) -> None:
    ends = [(text.find(stop) + len(stop), text.find(stop)) for stop in stops if stop in text]
    whole, stopped = _given(list(text), *stops)
    assert "".join(whole) == (text[: min(ends)[1]] if ends else text)
    assert stopped == bool(ends)


@given(text=_TEXT, stops=_STOPS, cut=st.integers(0, 12))
def test_pieces_do_not_matter(text: str, stops: list[str], cut: int) -> None:
    whole, _ = _given([text], *stops)
    parts, _ = _given([text[:cut], text[cut:]], *stops)
    assert "".join(parts) == "".join(whole)
