"""What may be asked, and what is refused with the field that is at fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refengine.serving.completion_request import PROMPTS, decode
from refengine.serving.refused import Refused


def _decoded(**fields: Any):
    return decode(json.dumps(fields).encode())


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
    "prompt", ["", [], [""], [[]], ["a", ""], ["a", 1], [1, [2]], ["a"] * (PROMPTS + 1)]
)
def test_other_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(Refused) as refused:
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
    with pytest.raises(Refused) as refused:
        _decoded(prompt="a", **{field: value})
    assert (refused.value.status, refused.value.field) == (400, field)
    assert field in refused.value.reason


@pytest.mark.parametrize("stop", ["", ["a", ""], ["x"] * 17, "x" * 1025])
def test_stop_strings_are_few_and_short(stop: object) -> None:
    with pytest.raises(Refused) as refused:
        _decoded(prompt="a", stop=stop).stops()
    assert (refused.value.status, refused.value.field) == (400, "stop")


def test_what_cannot_matter_is_ignored() -> None:
    asked = _decoded(
        prompt="a", temperature=0, n=1, top_p=0.5, seed=3, user="me", logit_bias={}, model=None
    )
    assert (asked.most(), asked.stops()) == (16, ())


def test_null_is_as_good_as_nothing() -> None:
    nothing = ("max_tokens", "stop", "stream", "echo", "n", "temperature", "logprobs", "best_of")
    asked = _decoded(prompt="a", **dict.fromkeys(nothing))
    assert (asked.most(), asked.stops()) == (16, ())


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"prompt": "\xff"}', b'{"prompt": "\\ud800"}']
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(Refused) as refused:
        decode(body)
    assert refused.value.status == 400
