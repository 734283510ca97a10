"""The queue's model: who may send, who has something to read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from killpoint.systems.queue.model import QueueModel


def test_a_queue_is_full_when_its_slowest_reader_is_a_lap_behind() -> None:
    model = QueueModel(readers=2, slots=2)
    assert model.send()
    assert model.send()
    assert not model.send()
    assert model.receive(0)
    assert not model.send()
    assert model.receive(1)
    assert model.send()


def test_a_reader_that_has_everything_has_nothing_to_read() -> None:
    model = QueueModel(readers=1, slots=3)
    assert not model.receive(0)
    assert model.send()
    assert model.receive(0)
    assert not model.receive(0)


@given(st.integers(1, 3), st.integers(1, 4), st.lists(st.integers(-1, 2), max_size=60))
def test_no_reader_is_ever_more_than_the_slots_behind(
    readers: int, slots: int, acts: list[int]
) -> None:
    model = QueueModel(readers, slots)
    for act in acts:
        model.send() if act < 0 else model.receive(act % readers)
        assert all(0 <= behind <= slots for behind in model.behind())
