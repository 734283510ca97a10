"""The least loaded replica is taken, and ties take turns."""

from refengine.engine.choice import Choice, load


def test_what_waits_weighs_more_than_what_runs():
    assert load(0, 0) == 0
    assert load(0, 3) < load(1, 0) < load(1, 1) < load(2, 0)
    assert load(1, 2) == load(0, 2, 1)


def test_the_least_loaded_is_taken():
    choice = Choice()
    assert [choice.of({"a": 3, "b": 1, "c": 2}) for _ in range(3)] == ["b"] * 3


def test_ties_take_turns():
    choice = Choice()
    names = [choice.of({"a": 1, "b": 1, "c": 1, "d": 2}) for _ in range(6)]
    assert names == ["a", "b", "c"] * 2


def test_of_equals_the_one_that_was_not_taken_for_longest():
    choice = Choice()
    assert choice.of({"b": 0}) == "b"
    assert choice.of({"a": 0}) == "a"
    assert choice.of({"a": 0, "b": 0}) == "b"


def test_of_nothing_nothing_is_chosen():
    assert Choice().of({}) is None
