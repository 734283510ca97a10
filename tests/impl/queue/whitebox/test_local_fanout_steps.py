"""The writer's side of local readers, step by step; and how tensors and arrays are taken apart."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from refengine.base import serialization
from refengine.base.cleanup import ReleaseStack
from refengine.base.event_waiter import EpollWaiter
from refengine.base.security import Keys
from refengine.queue.local_fanout import LocalFanout
from refengine.queue.settings import Settings

CHUNK = 100


class Local(LocalFanout):
    """Ranks 0 and 2, with payloads that are only noted."""

    def __init__(self, undo: ReleaseStack) -> None:
        self.waiter = EpollWaiter()
        undo.callback(self.waiter.close)
        super().__init__((0, 2), CHUNK, 4, Keys.fresh(), Settings(), self.waiter, undo)
        self.log: list[Any] = []
        self._payloads.close(0)
        self._payloads = SimpleNamespace(send=self._send, close=self._close)

    def _send(self, buffers: Any) -> tuple[int, int]:
        self.log.append(("payload", len(buffers)))
        return 7, 123

    def _close(self, linger: float) -> None:
        self.log.append(("linger", linger))


@pytest.fixture
def local() -> Iterator[Local]:
    with ReleaseStack() as undo:
        yield Local(undo)


def published(local: Local, size: int) -> bytes:
    chunk = local.ring_writer.claim(0)
    assert chunk is not None
    before = local.ring_writer.number
    local.publish([b"x" * size], size + 6, chunk)
    assert local.ring_writer.number == before + 1
    return bytes(chunk)


def test_ranks_are_slots_in_their_order(local: Local):
    assert local.missing() == [0, 2]
    assert not local.has_left(0)
    assert not local.has_left(2)
    local.ring_writer.forget = local.log.append
    local.forget(2)
    local.forget(0)
    assert local.log == [1, 0]


def test_a_goodbye_hands_payloads_over_then_says_it_and_rings(local: Local):
    local.ring_writer.wake_readers = lambda: local.log.append("ring")
    local.ring.say_left = lambda: local.log.append("left")
    local._handshake.peers[0] = SimpleNamespace(close=lambda: local.log.append("hung up"))
    local.shutdown(1.5)
    assert local.log == [("linger", 1.5), "left", "ring", "hung up"]


def test_a_go_is_told_to_all_who_are_watched_from_then_on_and_removes_the_names(local: Local):
    watched: list[Any] = []
    for rank in local.ranks:
        local._handshake.peers[rank] = SimpleNamespace(
            watch=lambda waiter, told: watched.append((waiter, told))
        )
    local._handshake.send_go = lambda: local.log.append("go")
    local._handshake.close = lambda: local.log.append("closed")
    assert local._directory.exists()
    local.go(lambda rank, peer: local.log.append((rank, peer)))
    assert local.log == ["go", "closed"]
    assert [waiter for waiter, _ in watched] == [local.waiter] * 2
    for _, told in watched:
        told("it")
    assert local.log[2:] == [(0, "it"), (2, "it")]
    assert not local._directory.exists()


# -- reducers -------------------------------------------------------------------------------


def reduced(obj: Any) -> tuple[Any, list[object]]:
    """What a reducer makes of it, and what it noted."""
    table: dict[type, Any] = {}
    used: list[object] = []
    serialization.install(table, used)
    return table[type(obj)](obj), used


def test_reducers_are_for_what_the_caller_has_imported(monkeypatch: pytest.MonkeyPatch):
    def known() -> set[type]:
        table: dict[type, Any] = {}
        serialization.install(table, [])
        return set(table)

    assert known() == {np.ndarray, torch.Tensor}
    with monkeypatch.context() as only:
        only.delitem(sys.modules, "torch")
        assert known() == {np.ndarray}
        only.setitem(sys.modules, "torch", SimpleNamespace())  # still being imported
        assert known() == {np.ndarray}
    with monkeypatch.context() as only:
        only.delitem(sys.modules, "numpy")
        assert known() == {torch.Tensor}
        only.setitem(sys.modules, "numpy", SimpleNamespace())
        assert known() == {torch.Tensor}


@pytest.mark.parametrize(("nbytes", "kind"), [(4095, bytearray), (4096, memoryview)])
def test_a_plain_array_is_its_shape_code_and_bytes(nbytes: int, kind: type):
    (build, (shape, code, data)), used = reduced(np.ones(nbytes, np.uint8))
    assert (build, shape, code) == (serialization.build_array, (nbytes,), "B")
    assert isinstance(data, bytearray) == (kind is bytearray)
    assert bytes(data) == b"\1" * nbytes
    assert len(used) == 1


def with_attribute() -> Any:
    tensor = torch.ones(2)
    tensor.mark = 1
    return tensor


@pytest.mark.parametrize(
    "tensor",
    [
        torch.eye(2).to_sparse(),
        torch.ones(2, requires_grad=True) * 2,
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.ones(2, device="meta"),
        with_attribute(),
    ],
    ids=["sparse", "no leaf", "conjugate", "negative", "elsewhere", "with an attribute"],
)
def test_any_other_tensor_goes_torchs_own_way(tensor: Any):
    class Own:
        def __getattr__(self, name: str) -> Any:
            return getattr(tensor, name)

        @property
        def __dict__(self) -> Any:
            return tensor.__dict__

        def __reduce_ex__(self, protocol: Any) -> Any:
            return ("torch's own", protocol)

    table: dict[type, Any] = {}
    used: list[object] = []
    serialization.install(table, used)
    assert table[torch.Tensor](Own()) == ("torch's own", 5)
    assert used == []
