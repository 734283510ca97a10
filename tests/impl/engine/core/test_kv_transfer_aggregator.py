"""Transfers of several ranks."""

from refengine.engine.core.kv_transfer_aggregator import KvTransferAggregator
from refengine.engine.model.batching import StepResult


def said(done: str = "", failed: str = "") -> StepResult:
    return StepResult([], tuple(done), tuple(failed))


def test_all_ranks_must_have_said_so():
    aggregator = KvTransferAggregator()
    assert aggregator.add([said("a"), said("b")]) == {}
    assert aggregator.add([said(), said("a")]) == {"a": True}
    assert aggregator.add([said("b"), said()]) == {"b": True}
    assert aggregator.add([said("a"), said("a")]) == {"a": True}


def test_one_that_failed_fails_it_but_not_before_the_others_have_ended():
    aggregator = KvTransferAggregator()
    assert aggregator.add([said(failed="a"), said("b")]) == {}
    assert aggregator.add([said(failed="b"), said("a")]) == {"a": False, "b": False}
    assert aggregator.add([said(failed="a"), said(failed="a")]) == {"a": False}
    assert aggregator.add([said("a")]) == {"a": True}
