"""The model run alone: what it depends on, and that it stays the same model."""

import pytest

from refengine.engine.model.reference import reference_generate, reference_next_token
from refengine.engine.model.size import ModelSize
from refengine.engine.model.tokens import END
from refengine.engine.model.weights import weights_of

TEXT = b"Hello, world"


def test_its_tokens_are_those_it_has_always_given():
    """Else a change of the formulas would go unnoticed: all who compute them change alike."""
    assert reference_generate(TEXT, 12) == [134, 78, 40, 55, 230, 159, 178, 6, 81, 148, 61, 175]
    other = [210, 235, 86, 203, 76, 207, 119, 204, 93, 109, 159, 203]
    assert reference_generate(TEXT, 12, ModelSize(seed=1)) == other


@pytest.mark.parametrize(("first", "length"), [(7, 0), (3, 1), (5, 4)])
def test_it_ends_where_the_model_says_so(first, length):
    size = ModelSize(width=8, heads=2, inner=8, seed=7)
    text = [first, first + 1]
    found = reference_generate(text, 30, size)
    assert len(found) == length
    assert reference_next_token([*text, *found], size, weights_of(size)) == END
    assert reference_generate(text, length, size) == found


def test_every_token_of_the_context_matters_and_so_does_its_place():
    prompt = [*b"The quick brown fox jumps over the lazy dog"]
    whole = reference_generate(prompt, 3)
    for place in range(len(prompt) - 1):
        changed, swapped = list(prompt), list(prompt)
        changed[place] ^= 1
        swapped[place : place + 2] = reversed(swapped[place : place + 2])
        assert reference_generate(changed, 3) != whole, place
        assert reference_generate(swapped, 3) != whole, place


def test_the_first_token_of_a_long_context_matters():
    prompt = [*b"The quick brown fox jumps over the lazy dog. "] * 8
    assert reference_generate([*b"t", *prompt[1:]], 3) != reference_generate(prompt, 3)


@pytest.mark.parametrize("shift", [1, 64])
def test_a_context_that_begins_later_is_another(shift):
    assert reference_generate([7] * 70, 6) != reference_generate([7] * (70 + shift), 6)


def test_its_tokens_are_many():
    found = [reference_generate([n], 40) for n in range(8)]
    assert len({token for tokens in found for token in tokens}) > 100
    assert all(0 <= token < END for tokens in found for token in tokens)


@pytest.mark.parametrize("length", [1, 2, 70])
def test_tokens_are_those_of_positions_that_are_all_computed_anew(length):
    size = ModelSize(width=16, heads=2, inner=8, layers=3, seed=5)
    prompt = [(7 * n + 3) % 250 for n in range(length)]
    text = list(prompt)
    for token in reference_generate(prompt, 24, size):
        assert token == reference_next_token(text, size, weights_of(size))
        text.append(token)
    assert len(text) == length + 24
