"""A group over a store that nobody trusts (G1, G2, S3)."""

import hmac
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from refengine.errors import (
    BarrierFailed,
    Busy,
    DeadlinePassed,
    ForkedCopy,
    NotAuthentic,
    Undecodable,
)
from refengine.group import StoreGroup, new_key
from refengine.group import store_group as store_module
from refengine.group.protocol import Kind, unpack

KEY = new_key()


class Shelf(dict[str, bytes]):
    """A store in memory."""

    def set(self, key: str, value: bytes) -> None:
        self[key] = bytes(value)

    def get(self, key: str) -> bytes:
        return self[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)

    def delete_key(self, key: str) -> bool:
        return self.pop(key, None) is not None


def ranks(n: int, shelf: Any = None, **overrides: Any) -> list[StoreGroup]:
    shelf = Shelf() if shelf is None else shelf
    return [StoreGroup(shelf, rank, n, key=KEY, **overrides) for rank in range(n)]


def together(groups: list[StoreGroup], act: Any) -> list[Any]:
    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(act, groups))


def test_each_pair_has_its_own_order_and_nothing_is_left():
    shelf = Shelf()
    a, b, c = ranks(3, shelf)
    for i in range(5):
        a.send_obj(("a", i), 1)
        c.send_obj(("c", i), 1)
        a.broadcast_obj(("cast", i), 0)
    assert [b.recv_obj(2, 1) for _ in range(5)] == [("c", i) for i in range(5)]
    assert [b.recv_obj(0, 1) for _ in range(5)] == [("a", i) for i in range(5)]
    for other in (b, c):
        assert [other.broadcast_obj(None, 0, 1) for _ in range(5)] == [
            ("cast", i) for i in range(5)
        ]
    assert together([a, b, c], lambda g: g.all_gather_obj(g.rank, 10)) == [[0, 1, 2]] * 3
    assert together([a, b, c], lambda g: g.barrier(10)) == [None] * 3
    assert not shelf


def test_it_works_over_torchs_store():
    distributed = pytest.importorskip("torch.distributed")
    host = distributed.TCPStore("127.0.0.1", 0, 2, True, timedelta(seconds=10), False)
    other = distributed.TCPStore("127.0.0.1", host.port, 2, False, timedelta(seconds=10))
    groups = [StoreGroup(s, rank, 2, key=KEY) for rank, s in enumerate((host, other))]
    groups[1].send_obj(b"x" * (2 << 20), 0)
    assert groups[0].recv_obj(1, 10) == b"x" * (2 << 20)
    before = host.num_keys()
    for i in range(200):
        groups[1].send_obj(i, 0)
        assert groups[0].recv_obj(1, 10) == i
    assert host.num_keys() == before
    assert together(groups, lambda g: g.all_gather_obj(g.rank, 10)) == [[0, 1]] * 2
    assert together(groups, lambda g: g.close(10)) == [None] * 2


class Touch:
    def __reduce__(self) -> Any:
        return pytest.fail, ("it was decoded",)


@pytest.mark.parametrize("forgery", ["made up", "other key", "moved", "changed", "short"])
def test_a_forged_value_is_not_decoded(forgery: str):
    shelf = Shelf()
    a, b = ranks(2, shelf)
    name = "group/letter/0>1/0"
    if forgery == "made up":
        shelf.set(name, b"\0" * 32 + pickle.dumps(Touch()))
    elif forgery == "other key":
        StoreGroup(shelf, 0, 2, key=new_key()).send_obj(Touch(), 1)
    elif forgery == "moved":
        a.broadcast_obj(Touch(), 0)
        shelf[name] = shelf.pop("group/cast/0>1/0")
    elif forgery == "changed":
        a.send_obj(Touch(), 1)
        shelf[name] = shelf[name][:-1] + b"!"
    else:
        shelf.set(name, b"")
    for _ in range(2):
        with pytest.raises(NotAuthentic):
            b.recv_obj(0, 1)


def test_what_gave_up_can_be_called_again():
    a, b = ranks(2)
    with pytest.raises(BarrierFailed) as caught:
        a.barrier(0.05)
    assert caught.value.missing == [1]
    with pytest.raises(DeadlinePassed, match="1"):
        a.all_gather_obj("first", 0.05)
    assert b.all_gather_obj("b", 1) == ["first", "b"]
    assert a.all_gather_obj("first", 1) == ["first", "b"]
    b.barrier(1)
    a.barrier(1)
    with pytest.raises(DeadlinePassed):
        a.recv_obj(1, 0)


def test_a_sender_waits_for_a_receiver_that_lags_too_far(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(store_module, "_WINDOW", 3)
    shelf = Shelf()
    a, b = ranks(2, shelf, timeout=0.05)
    for i in range(3):
        a.send_obj(i, 1)
    with pytest.raises(DeadlinePassed, match="rank 1 to receive"):
        a.send_obj(3, 1)
    assert len(shelf) == 3
    assert b.recv_obj(0, 1) == 0
    a.send_obj(3, 1)
    assert [b.recv_obj(0, 1) for _ in range(3)] == [1, 2, 3]


class Poison:
    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_an_undecodable_object_is_raised_once():
    a, b = ranks(2)
    a.send_obj(Poison(), 1)
    a.send_obj("next", 1)
    with pytest.raises(Undecodable):
        b.recv_obj(0, 1)
    assert b.recv_obj(0, 1) == "next"


def test_rank_0_lingers_until_the_others_have_closed():
    a, b = ranks(2)
    closing = threading.Thread(target=a.close, args=(10,))
    closing.start()
    b.send_obj("x", 0)
    closing.join(0.1)
    assert closing.is_alive()
    b.close()
    closing.join(5)
    assert not closing.is_alive()


class Slow(Shelf):
    """Nothing that is asked for comes; notes what is asked."""

    def check(self, keys: list[str]) -> bool:
        return False


class Naps:
    """Stands for waiting: time passes at once. Notes for how long."""

    def __init__(self) -> None:
        self.now, self.naps = 50.0, list[float]()

    def Event(self) -> "Naps":
        return self

    def wait(self, seconds: float) -> None:
        self.naps.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> Naps:
    naps = Naps()
    monkeypatch.setattr(store_module, "threading", naps)
    return naps


def test_a_wait_asks_less_and_less_often_and_ends_at_its_deadline(naps: Naps):
    (group, _) = ranks(2, Slow(), clock=lambda: naps.now)
    with pytest.raises(DeadlinePassed) as caught:
        group.recv_obj(1, 0.1)
    steps = [0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.02, 0.02, 0.02]
    assert naps.naps[:9] == steps
    assert sum(naps.naps) == pytest.approx(0.1)
    assert (caught.value.waiting_for, caught.value.seconds) == ("a letter of rank(s) 1", 0.1)


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_a_deadline_that_is_over_is_told_without_a_wait(naps: Naps, timeout: float):
    (group, _) = ranks(2, Slow(), clock=lambda: naps.now)
    with pytest.raises(DeadlinePassed) as caught:
        group.recv_obj(1, timeout)
    assert caught.value.seconds == timeout
    assert naps.naps == []


def test_half_a_second_is_waited_for_too(naps: Naps):
    (group, _) = ranks(2, Slow(), clock=lambda: naps.now)
    with pytest.raises(DeadlinePassed):
        group.recv_obj(1, 0.5)
    assert sum(naps.naps) == pytest.approx(0.5)


def test_without_a_deadline_it_waits_until_it_comes(naps: Naps):
    shelf = Shelf()
    a, b = ranks(2, shelf, clock=lambda: naps.now)
    real = naps.wait

    def wait(seconds: float) -> None:
        real(seconds)
        if len(naps.naps) == 9:
            a.send_obj("late", 1)

    naps.wait = wait
    assert b.recv_obj(0) == "late"
    assert len(naps.naps) == 9


def test_a_full_window_is_waited_for_as_long_as_the_group_was_given(naps: Naps):
    shelf = Shelf()
    a, b = ranks(2, shelf, clock=lambda: naps.now, timeout=0.3)
    for i in range(1024):
        a.send_obj(i, 1)
    assert naps.naps == []
    with pytest.raises(DeadlinePassed) as caught:
        a.send_obj(1024, 1)
    assert (caught.value.waiting_for, caught.value.seconds) == ("rank 1 to receive", 0)
    assert sum(naps.naps) == pytest.approx(0.3)
    assert [b.recv_obj(0, 0) for _ in range(2)] == [0, 1]
    a.send_obj(1024, 1)
    a.send_obj(1025, 1)
    assert [b.recv_obj(0, 0) for _ in range(1024)] == list(range(2, 1026))


def test_values_lie_at_places_that_name_group_kind_ranks_and_number():
    shelf = Shelf()
    a, b, _ = ranks(3, shelf)
    a.send_obj("x", 1)
    a.send_obj("x", 1)
    a.broadcast_obj("x", 0)
    b.close()
    with pytest.raises(DeadlinePassed):
        b.all_gather_obj("x", 0)
    assert list(shelf) == [
        "group/letter/0>1/0",
        "group/letter/0>1/1",
        "group/cast/0>1/0",
        "group/cast/0>2/0",
        "group/bye/1>0/0",
        "group/gather/1>0/0",
        "group/gather/1>2/0",
    ]


def test_a_value_is_a_code_of_32_bytes_then_a_frame_without_numbers():
    shelf = Shelf()
    a, _ = ranks(2, shelf, name="mine")
    a.send_obj("x", 1)
    value = shelf["mine/letter/0>1/0"]
    frame = unpack(value[32:])
    assert frame[:4] == (Kind.LETTER, 0, 0, 0)
    place = "mine/letter/0>1/0"
    signed = f"{len(place)}:{place}".encode() + value[32:]
    assert hmac.digest(KEY, signed, "sha256") == value[:32]


def test_groups_of_other_names_do_not_meet():
    shelf = Shelf()
    a, _ = ranks(2, shelf, name="a")
    _, b = ranks(2, shelf, name="b")
    a.send_obj("x", 1)
    with pytest.raises(DeadlinePassed):
        b.recv_obj(0, 0)


def test_only_those_who_did_not_come_are_named():
    for late in (1, 2):
        groups = ranks(3)
        for group in groups:
            if group.rank not in (0, late):
                for call in (lambda g=group: g.barrier(0), lambda g=group: g.all_gather_obj(1, 0)):
                    with pytest.raises(DeadlinePassed):
                        call()
        with pytest.raises(BarrierFailed) as failed:
            groups[0].barrier(0)
        assert failed.value.missing == [late]
        with pytest.raises(DeadlinePassed) as caught:
            groups[0].all_gather_obj(0, 0)
        assert caught.value.waiting_for == f"a gather of rank(s) {late}"


def test_a_gather_called_again_brings_its_first_object_once():
    shelf = Shelf()
    a, b, c = ranks(3, shelf)
    for again in range(3):
        with pytest.raises(DeadlinePassed):
            a.all_gather_obj(("a", again), 0)
    assert list(shelf) == ["group/gather/0>1/0", "group/gather/0>2/0"]
    with pytest.raises(DeadlinePassed):
        b.all_gather_obj(1, 0)
    assert c.all_gather_obj(2, 0) == b.all_gather_obj(1, 0) == [("a", 0), 1, 2]
    assert a.all_gather_obj("again", 0) == ["again", 1, 2]


def test_a_group_of_one_meets_itself():
    (only,) = ranks(1)
    assert only.all_gather_obj("x", 0) == ["x"]
    only.barrier(0)
    assert only.broadcast_obj("y", 0) == "y"
    only.close(0)


def test_a_member_says_goodbye_once():
    shelf = Shelf()
    a, b, c = ranks(3, shelf)
    for group in (b, c, b, c):
        group.close()
    assert list(shelf) == ["group/bye/1>0/0", "group/bye/2>0/0"]
    a.close(0)
    assert not shelf
    a.close(0)


def test_rank_0_lingers_no_longer_than_it_was_told(naps: Naps):
    a, _ = ranks(2, Slow(), clock=lambda: naps.now)
    for _ in range(2):
        naps.naps.clear()
        a.close(0.25)
        assert sum(naps.naps) == pytest.approx(0.25)


def test_a_goodbye_is_no_other_message():
    shelf = Shelf()
    a, b = ranks(2, shelf)
    b.send_obj("x", 0)
    assert a.recv_obj(1, 0) == "x"
    b.close()
    a.close(0)
    assert not shelf


def test_a_second_call_from_within_is_told():
    class Nosy(Shelf):
        def check(self, keys: list[str]) -> bool:
            with pytest.raises(Busy, match="send_obj"):
                b.send_obj("x", 0)
            return super().check(keys)

    shelf = Nosy()
    a, b = ranks(2, shelf)
    a.send_obj("x", 1)
    assert b.recv_obj(0, 1) == "x"
    b.send_obj("y", 0)


def test_a_forks_copy_is_told_whose_it_is(monkeypatch: pytest.MonkeyPatch):
    shelf = Shelf()
    _, b = ranks(2, shelf)
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    with pytest.raises(ForkedCopy) as caught:
        b.send_obj("x", 0)
    assert caught.value.facts == (pid, "group")
    b.close()
    assert not shelf


class Frail(Shelf):
    """Fails at the next write when it is told to; at places that end so, if told where."""

    fail = False
    where = ""

    def set(self, key: str, value: bytes) -> None:
        if self.fail and key.endswith(self.where):
            self.fail = False
            raise OSError("not now")
        super().set(key, value)


def test_an_error_of_the_store_is_passed_on_and_the_next_call_sends_what_it_held_up():
    shelf = Frail()
    a, b = ranks(2, shelf)
    shelf.fail = True
    with pytest.raises(OSError, match="not now"):
        a.send_obj("first", 1)
    a.send_obj("second", 1)
    assert [b.recv_obj(0, 0) for _ in range(2)] == ["first", "second"]


def test_a_value_that_was_read_does_not_come_back_with_those_that_were_held_up():
    shelf = Frail()
    a, b, c = ranks(3, shelf)
    shelf.fail, shelf.where = True, ">2/0"
    with pytest.raises(OSError, match="not now"):
        a.broadcast_obj("first", 0)
    assert b.broadcast_obj(None, 0, 0) == "first"
    a.broadcast_obj("second", 0)
    assert list(shelf) == ["group/cast/0>2/0", "group/cast/0>1/1", "group/cast/0>2/1"]
    assert [c.broadcast_obj(None, 0, 0) for _ in range(2)] == ["first", "second"]


def test_a_value_is_deleted_once_it_was_read_and_read_once():
    class Counting(Shelf):
        reads = 0

        def get(self, key: str) -> bytes:
            self.reads += 1
            return super().get(key)

    shelf = Counting()
    a, b, c = ranks(3, shelf)
    with pytest.raises(DeadlinePassed):
        b.all_gather_obj("b", 0)
    for _ in range(3):
        with pytest.raises(DeadlinePassed):
            a.all_gather_obj("a", 0)
    assert shelf.reads == 1
    assert "group/gather/1>0/0" not in shelf
    assert c.all_gather_obj("c", 0) == ["a", "b", "c"]
    assert a.all_gather_obj("a", 0) == ["a", "b", "c"]
