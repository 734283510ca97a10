"""The least loaded replica is taken, and ties take turns."""

import pytest

from refengine.engine.front_end.router import LoadBalancer, check_servable, load
from refengine.engine.settings import EngineSettings


def test_what_waits_weighs_more_than_what_runs():
    assert load(0, 0) == 0
    assert load(0, 3) < load(1, 0) < load(1, 1) < load(2, 0)
    assert load(1, 2) == load(0, 2, 1)


def test_the_least_loaded_is_taken():
    choice = LoadBalancer()
    assert [choice.choose({"a": 3, "b": 1, "c": 2}) for _ in range(3)] == ["b"] * 3


def test_ties_take_turns():
    choice = LoadBalancer()
    names = [choice.choose({"a": 1, "b": 1, "c": 1, "d": 2}) for _ in range(6)]
    assert names == ["a", "b", "c"] * 2


def test_of_equals_the_one_that_was_not_taken_for_longest():
    choice = LoadBalancer()
    assert choice.choose({"b": 0}) == "b"
    assert choice.choose({"a": 0}) == "a"
    assert choice.choose({"a": 0, "b": 0}) == "b"


def test_of_nothing_nothing_is_chosen():
    assert LoadBalancer().choose({}) is None


SMALL = EngineSettings(blocks=2, block_size=4)


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [((0,), 1), ((256,), 8), ((1,) * 8, 1), ((1,), 8), ((1,) * 4, 5)],
)
def test_what_just_fits_is_taken(prompt, tokens):
    check_servable(SMALL, prompt, tokens)


@pytest.mark.parametrize(
    ("prompt", "tokens", "why"),
    [
        ((), 1, "needs a prompt"),
        ((1,), 0, "at least one token"),
        ((257,), 1, "not below 257"),
        ((1, -1), 1, "not below 257"),
        ((1,) * 9, 1, "9 tokens and 1 more never fit into a KV cache of 8"),
        ((1,), 9, "1 tokens and 9 more never fit"),
    ],
)
def test_what_does_not_is_refused_with_the_reason(prompt, tokens, why):
    with pytest.raises(ValueError, match=why):
        check_servable(SMALL, prompt, tokens)
