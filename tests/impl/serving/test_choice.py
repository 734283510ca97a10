"""A completion's text is its tokens' text, however they came; it ends where it should."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from refengine.engine import Delta
from refengine.serving.choice import Choice, Piece


def _all(deltas: list[Delta], *stops: str) -> tuple[Choice, list[Piece]]:
    choice, pieces = Choice(stops), list[Piece]()
    for delta in deltas:
        if choice.finish is None:
            pieces.append(choice.take(delta))
    return choice, pieces


@given(raw=st.binary(max_size=16), cuts=st.lists(st.integers(0, 16), max_size=3))
def test_pieces_make_the_text_of_all_bytes(raw: bytes, cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    deltas = [Delta(tuple(raw[a:b])) for a, b in pairwise(bounds)]
    choice, pieces = _all([*deltas, Delta((), "length")])
    assert "".join(piece.text for piece in pieces) == choice.text == raw.decode(errors="replace")
    assert [token for piece in pieces for token in piece.tokens] == choice.tokens == list(raw)
    assert choice.finish == "length"


def test_half_a_character_waits_for_the_other_half() -> None:
    first, second = "é".encode()
    _, pieces = _all([Delta((first,)), Delta((second,)), Delta((), "stop")])
    assert [piece.text for piece in pieces] == ["", "é", ""]


def test_half_a_character_at_the_end_is_told() -> None:
    _, pieces = _all([Delta((65,)), Delta((0xC3,), "length")])
    assert [piece.text for piece in pieces] == ["A", "\ufffd"]


def test_a_stop_string_ends_it_with_the_tokens_that_complete_it() -> None:
    choice, pieces = _all([Delta(tuple(b"one, two")), Delta((), "length")], ", ")
    assert pieces == [Piece("one", tuple(b"one, "), "stop")]
    assert (choice.text, choice.finish) == ("one", "stop")


def test_a_stop_string_begun_and_not_ended_is_text() -> None:
    choice, _ = _all([Delta(tuple(b"one,"), "length")], ", ")
    assert (choice.text, choice.finish) == ("one,", "length")


def test_a_stop_string_may_be_completed_by_the_very_end() -> None:
    choice, _ = _all([Delta((65, 0xC3), "length")], "\ufffd")
    assert (choice.text, choice.finish) == ("A", "stop")
