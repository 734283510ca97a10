from __future__ import annotations

import functools
import io
import itertools
import pickle
import random
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from killpoint.simulation.snapshot import Earlier, Snapshot, Unkept


class Slotted:
    __slots__ = ("later", "value")

    def __init__(self, value: int) -> None:
        self.value = value


class Counted(msgspec.Struct):
    value: int


class Derived(Counter[str]):
    """A container with attributes beside its contents."""


def _snapshot(make: Callable[[], Any]) -> tuple[Any, Snapshot]:
    earlier = Earlier()
    thing = make()
    return thing, Snapshot([thing], earlier)


def test_attributes_and_whatever_they_lead_to_are_put_back() -> None:
    thing, snapshot = _snapshot(lambda: SimpleNamespace(a=1, inner=SimpleNamespace(b=[1, 2])))
    inner = thing.inner
    thing.a, inner.b[0], inner.more = 2, 7, "new"
    inner.b.append(3)
    thing.inner = None
    assert snapshot.restore()
    assert thing.inner is inner
    assert (thing.a, inner.b, vars(inner).keys()) == (1, [1, 2], {"b"})


def test_an_attribute_that_was_deleted_is_there_again() -> None:
    thing, snapshot = _snapshot(lambda: SimpleNamespace(a=1, b=2))
    del thing.a
    assert snapshot.restore()
    assert vars(thing) == {"a": 1, "b": 2}


def test_slots_and_structs_are_put_back() -> None:
    (slotted, struct), snapshot = _snapshot(lambda: (Slotted(1), Counted(1)))
    slotted.value, slotted.later, struct.value = 2, 3, 2
    assert snapshot.restore()
    assert (slotted.value, struct.value) == (1, 1)
    assert not hasattr(slotted, "later")


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: {"a": 1, "b": 2}, lambda d: d.update(a=d.pop("a"))),
        (lambda: OrderedDict(a=1, b=2), lambda d: d.move_to_end("a")),
        (lambda: [1, 2], lambda each: each.reverse()),
        (lambda: deque([1, 2], maxlen=2), lambda d: d.append(3)),
        (lambda: bytearray(b"abc"), lambda b: b.extend(b"d")),
        (lambda: Derived("aab"), lambda c: c.update("b")),
        (lambda: {1, 2, 3}, lambda s: s.discard(2)),
    ],
)
def test_containers_have_their_contents_in_their_order(
    make: Callable[[], Any], change: Callable[[Any], None]
) -> None:
    thing, snapshot = _snapshot(lambda: [make()])
    change(thing[0])
    assert list(thing[0]) != list(make()) or thing[0] != make()
    assert snapshot.restore()
    assert list(thing[0]) == list(make())
    assert thing[0] == make()


def test_what_a_closure_holds_is_put_back() -> None:
    def make() -> Any:
        count = 0

        def add() -> int:
            nonlocal count
            count += 1
            return count

        return functools.partial(add)

    add, snapshot = _snapshot(make)
    assert [add(), add()] == [1, 2]
    assert snapshot.restore()
    assert add() == 1


def test_a_pickler_and_its_file_are_put_back() -> None:
    def make() -> Any:
        file = io.BytesIO()
        return file, pickle.Pickler(file, 5)

    (file, pickler), snapshot = _snapshot(make)
    thing = ("x", 1)
    pickler.dump(thing)
    first = file.getvalue()
    pickler.dump(thing)
    assert file.getvalue() != first * 2  # the second one refers to the first
    assert snapshot.restore()
    pickler.dump(thing)
    assert file.getvalue() == first


def test_what_was_there_before_is_left_alone() -> None:
    outside = [1]
    (thing,), snapshot = _snapshot(lambda: [SimpleNamespace(outside=outside)])
    outside.append(2)
    thing.outside = None
    assert snapshot.restore()
    assert thing.outside is outside
    assert outside == [1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: (each for each in (1, 2)),
        lambda: itertools.count(),
        lambda: random.Random(1),
        lambda: threading.local(),
    ],
)
def test_a_kind_whose_state_is_hidden_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(Unkept):
        _snapshot(lambda: [make()])


def test_a_lock_that_is_held_and_a_view_that_was_released_cannot_be_put_back() -> None:
    for kind in (threading.Lock, threading.RLock):
        (lock,), snapshot = _snapshot(lambda kind=kind: [kind()])
        assert snapshot.restore()
        with lock:
            assert not snapshot.restore()
        assert snapshot.restore()
    (view,), snapshot = _snapshot(lambda: [memoryview(bytearray(3))])
    view[0] = 9
    assert snapshot.restore()
    assert view[0] == 0
    view.release()
    assert not snapshot.restore()


def test_an_iterator_may_not_have_gone_on() -> None:
    (each,), snapshot = _snapshot(lambda: [map(str, [1, 2])])
    assert snapshot.restore()
    next(each)
    assert not snapshot.restore()
