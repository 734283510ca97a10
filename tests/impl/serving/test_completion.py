"""What may be asked, and what is refused with the field that is at fault."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refengine.engine import Delta
from refengine.serving.completion import MAX_PROMPTS, Choice, Piece, StopFinder, decode_request
from refengine.serving.http import ApiError


def _decoded(**fields: Any):
    return decode_request(json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("é", [[0xC3, 0xA9]]),
        (["a", "bc"], [[97], [98, 99]]),
        ([1, 2, 3], [[1, 2, 3]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
)
def test_a_prompt_is_texts_or_tokens(prompt: object, tokens: list[list[int]]) -> None:
    assert _decoded(prompt=prompt).prompts() == tokens


@pytest.mark.parametrize(
    "prompt", ["", [], [""], [[]], ["a", ""], ["a", 1], [1, [2]], ["a"] * (MAX_PROMPTS + 1)]
)
def test_other_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(ApiError) as refused:
        _decoded(prompt=prompt).prompts()
    assert (refused.value.status, refused.value.field) == (400, "prompt")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0.7),
        ("n", 2),
        ("best_of", 3),
        ("logprobs", 0),
        ("suffix", "z"),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -1),
        ("logit_bias", {"50": 1}),
        ("max_tokens", 0),
        ("max_tokens", "many"),
        ("max_tokens", True),
        ("stream_options", {"include_usage": True}),
        ("ignore_eos", True),
        ("stop", 5),
    ],
)
def test_what_would_change_the_tokens_or_is_unknown_is_refused(field: str, value: object) -> None:
    with pytest.raises(ApiError) as refused:
        _decoded(prompt="a", **{field: value})
    assert (refused.value.status, refused.value.field) == (400, field)
    assert field in refused.value.reason


@pytest.mark.parametrize("stop", ["", ["a", ""], ["x"] * 17, "x" * 1025])
def test_stop_strings_are_few_and_short(stop: object) -> None:
    with pytest.raises(ApiError) as refused:
        _decoded(prompt="a", stop=stop).stops()
    assert (refused.value.status, refused.value.field) == (400, "stop")


def test_what_cannot_matter_is_ignored() -> None:
    asked = _decoded(
        prompt="a", temperature=0, n=1, top_p=0.5, seed=3, user="me", logit_bias={}, model=None
    )
    assert (asked.token_limit(), asked.stops()) == (16, ())


def test_null_is_as_good_as_nothing() -> None:
    nothing = ("max_tokens", "stop", "stream", "echo", "n", "temperature", "logprobs", "best_of")
    asked = _decoded(prompt="a", **dict.fromkeys(nothing))
    assert (asked.token_limit(), asked.stops()) == (16, ())


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"prompt": "\xff"}', b'{"prompt": "\\ud800"}']
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        decode_request(body)
    assert refused.value.status == 400


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
