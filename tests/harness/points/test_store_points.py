"""Store points: two places a store, in order, seen by the thread that watches."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

import pytest

from killpoint.points.stores import Stores


def _enqueue(stores: Stores, done: list[str]) -> None:
    sink = stores.flags()
    with sink(2, 0, 0):
        done.append("emptied")
    with stores.around("writer sleeps = 0"):
        done.append("cleared")
    with sink(2, 3, 1):
        done.append("read")


def test_each_store_has_a_place_before_and_one_after_it() -> None:
    stores, done = Stores(), list[str]()
    with stores.watched(done.append):
        _enqueue(stores, done)
    assert done == [
        "before slot 2 written = 0",
        "emptied",
        "after slot 2 written = 0",
        "before writer sleeps = 0",
        "cleared",
        "after writer sleeps = 0",
        "before slot 2 read by 2 = 1",
        "read",
        "after slot 2 read by 2 = 1",
    ]


def test_nobody_is_told_outside_of_the_watched_operation() -> None:
    stores, told = Stores(), list[str]()
    with stores.watched(told.append):
        pass
    _enqueue(stores, [])
    assert told == []


def test_stores_of_other_threads_are_not_the_operations() -> None:
    stores, told = Stores(), list[str]()
    with stores.watched(told.append):
        other = threading.Thread(target=_enqueue, args=(stores, []))
        other.start()
        other.join()
    assert told == []


def test_what_is_raised_at_a_place_before_keeps_the_store_from_being_made() -> None:
    stores, done = Stores(), list[str]()

    def strike(place: str) -> None:
        if place.startswith("before writer"):
            raise KeyError(place)

    with stores.watched(strike), pytest.raises(KeyError):
        _enqueue(stores, done)
    assert done == ["emptied"]


def test_a_recorded_store_is_recorded_alone_with_its_store() -> None:
    stores, told = Stores(), list[str]()

    @contextlib.contextmanager
    def recorded(slot: int, flag: int, value: int) -> Generator[None]:
        told.append(f"locked {slot} {flag} {value}")
        yield
        told.append("unlocked")

    with stores.watched(told.append), stores.flags(recorded)(0, 1, 1):
        told.append("stored")
    before, after = "before slot 0 read by 0 = 1", "after slot 0 read by 0 = 1"
    assert told == [before, "locked 0 1 1", "stored", "unlocked", after]
