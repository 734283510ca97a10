"""The way of large messages: by how fast chunks are filled, and never for good."""

import pytest

from refengine.queue.chunking import HotChunkPolicy


def went(warmth: HotChunkPolicy, warm: float, cold: float, messages: int = 1) -> list[bool]:
    """Ways that so many messages took; the speeds of both in GB/s."""
    ways: list[bool] = []
    for _ in range(messages):
        way = warmth.use_hot_chunks()
        warmth.record(way, 1 << 20, (1 << 20) / ((warm if way else cold) * 1e9))
        ways.append(way)
    return ways


def test_while_it_is_fast_nothing_else_is_tried():
    assert went(HotChunkPolicy(), warm=5.1, cold=100.0, messages=500) == [True] * 500


def test_a_time_too_short_to_measure_is_fast():
    warmth = HotChunkPolicy()
    went(warmth, warm=3.0, cold=3.0, messages=3)
    warmth.record(True, 1 << 20, 0.0)
    assert warmth.use_hot_chunks()


def test_what_is_slow_is_left_for_what_is_faster():
    assert went(HotChunkPolicy(), warm=3.0, cold=9.0, messages=9) == [True] * 4 + [False] * 5


def test_of_a_few_the_fastest_counts():
    warmth = HotChunkPolicy()
    went(warmth, warm=5.1, cold=90.0, messages=4)
    assert went(warmth, warm=1.0, cold=90.0, messages=5) == [True] * 4 + [False]


@pytest.mark.parametrize(("cold", "way"), [(5.9, True), (6.1, False)])
def test_a_little_faster_is_not_enough(cold: float, way: bool):
    warmth = HotChunkPolicy()
    assert went(warmth, warm=3.0, cold=cold, messages=5)[-1] is False
    assert warmth.use_hot_chunks() is way


@pytest.mark.parametrize(("cold", "settled"), [(1.0, True), (9.0, False)])
def test_the_other_way_is_tried_now_and_then(cold: float, settled: bool):
    warmth = HotChunkPolicy()
    went(warmth, warm=3.0, cold=cold, messages=5)
    ways = went(warmth, warm=3.0, cold=cold, messages=195)
    assert ways == ([settled] * 64 + [not settled]) * 3


def test_it_goes_back_when_that_has_become_faster():
    warmth = HotChunkPolicy()
    went(warmth, warm=3.0, cold=9.0, messages=5)
    ways = went(warmth, warm=30.0, cold=9.0, messages=300)
    assert ways == [False] * 64 + [True] * 236
