"""Transfers of several ranks."""

from refengine.engine.batch import StepResult
from refengine.engine.tally import Tally


def said(done: str = "", failed: str = "") -> StepResult:
    return StepResult([], tuple(done), tuple(failed))


def test_all_ranks_must_have_said_so():
    tally = Tally()
    assert tally.hear([said("a"), said("b")]) == {}
    assert tally.hear([said(), said("a")]) == {"a": True}
    assert tally.hear([said("b"), said()]) == {"b": True}
    assert tally.hear([said("a"), said("a")]) == {"a": True}


def test_one_that_failed_fails_it_but_not_before_the_others_have_ended():
    tally = Tally()
    assert tally.hear([said(failed="a"), said("b")]) == {}
    assert tally.hear([said(failed="b"), said("a")]) == {"a": False, "b": False}
    assert tally.hear([said(failed="a"), said(failed="a")]) == {"a": False}
    assert tally.hear([said("a")]) == {"a": True}
