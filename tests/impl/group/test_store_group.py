"""A group over a store that nobody trusts (G1, G2, S3)."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from refengine.errors import BarrierFailed, DeadlinePassed, NotAuthentic, Undecodable
from refengine.group import StoreGroup, new_key
from refengine.group import store as store_module

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


def ranks(n: int, shelf: Any = None, **seams: Any) -> list[StoreGroup]:
    shelf = Shelf() if shelf is None else shelf
    return [StoreGroup(shelf, rank, n, key=KEY, **seams) for rank in range(n)]


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
