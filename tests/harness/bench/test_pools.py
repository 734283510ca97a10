"""The pool's bench: its floor works, and a report says ratios first."""

from __future__ import annotations

import msgspec

from killpoint.bench.machine import Meanwhile, look
from killpoint.bench.pools import show
from killpoint.bench.pools.orders import PoolOrders
from killpoint.bench.pools.pipes import PipePool
from killpoint.bench.pools.run import IDLE, PoolOutcome, PoolPace
from killpoint.bench.run import Figures
from killpoint.targets.protocol import PoolShape


def outcome(**more: Figures) -> PoolOutcome:
    calls = {
        "ours": Figures([10.0, 12.0], [9.0, 13.0]),
        "theirs": Figures([30.0, 24.0], [24.0, 30.0]),
        "broken": Figures(missing="it did not start", failed=True),
    }
    starts = {"default": Figures([0.1, 0.2]), "spawn": Figures([2.0, 2.0])}
    quiet = Meanwhile(9.0, 1.0, 0.0, 0.0, (0.0, 0.0, 0.0))
    return PoolOutcome(
        "ours", {"ours": "1"}, {}, look(), PoolPace(), 0, calls, starts | more, quiet
    )


def test_the_floor_answers_by_every_worker_and_ends() -> None:
    orders = PoolOrders(PipePool())
    seconds, pids = orders.pool_start(PoolShape(2), IDLE)
    assert len(set(pids)) == 2
    assert seconds > 0
    assert len(orders.pool_calls(5)) == 5
    orders.pool_stop()
    orders.pool_stop()


def test_pairs_give_ratios_above_one_where_the_target_is_faster() -> None:
    ratio = outcome().ratio("theirs")
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == (2.5, 2.0, 3.0)
    start = outcome().start_ratio()
    assert start is not None
    assert (start.low, start.high) == (10.0, 20.0)


def test_who_failed_has_no_ratio_and_is_named() -> None:
    assert outcome().ratio("broken") is None
    assert outcome().failures() == ["broken: it did not start"]


def test_the_report_says_ratios_before_figures() -> None:
    text = show.text(outcome())
    assert text.index("to theirs: 2.5 [2, 3]") < text.index("call, ours: 11 (10 - 12) us")
    assert "call, broken: - (it did not start)" in text
    assert "ready, default: 0.15 (0.1 - 0.2) s" in text


def test_the_data_has_every_sample_and_the_ratios() -> None:
    found = msgspec.json.decode(show.json(outcome()))
    assert found["calls"]["theirs"]["samples"] == [30.0, 24.0]
    assert found["ratios"]["theirs"]["median"] == 2.5
    assert found["start_ratio"]["low"] == 10.0
