"""What a driver measures beside clients: metrics of each replica, and how much text comes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from killpoint.systems.server.load import measures
from killpoint.systems.server.load.measures import TextRate, shared, summed

METRICS = """\
# TYPE running gauge
running{engine="0"} 3.0
running{engine="1"} 4.0
waiting{engine="0"} 0.0
waiting{engine="1"} 2.0
running_total 9.0
"""


def test_gauges_are_summed_by_their_labels() -> None:
    names = ["running", "waiting"]
    assert summed(METRICS, names) == 9.0
    assert shared(METRICS, names) == [3.0, 6.0]
    assert shared("running 3.0\n", names) == []


@pytest.mark.parametrize(("each", "whole"), [(10, True), (8, True), (7, False)])
def test_as_much_text_comes_as_undisturbed_or_nearly(
    each: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(measures, "time", SimpleNamespace(monotonic=lambda: now))
    pace = TextRate(undisturbed=100.0)
    for n in range(30):
        assert n > 20 or not pace.is_whole(0.0)
        pace.note(n * each)
        now += 0.1
    assert pace.is_whole(0.0) == whole
    assert not pace.is_whole(102.9)
