"""What a release can be asked for is read off its file, not off its version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from package_index import FOLDER

from killpoint.errors import BadUsage, CannotWork
from killpoint.targets import vllm
from killpoint.targets.protocol import (
    Cancels,
    HasPoints,
    HasRing,
    HasSlots,
    HasWire,
    QueueShape,
    UnsupportedByTarget,
)
from killpoint.targets.vllm import wire
from killpoint.targets.vllm.adapter import VllmTarget

OLDEST = """
class ShmRingBuffer:
    def get_metadata(self, index): ...
    def get_data(self, index): ...
class MessageQueue:
    def acquire_write(self): ...
    def acquire_read(self): ...
    def enqueue(self, obj): ...
    def dequeue(self): ...
    def create_from_handle(handle, rank): ...
"""
ALWAYS = {"queue", "ring", "slots", "points", "sim_memory", "sim_sockets", "clock"}


def target(root: Path, text: str) -> VllmTarget:
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / "shm_broadcast.py").write_text(text)
    built = vllm.build(f"vllm@{root}")
    assert isinstance(built, VllmTarget)
    return built


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({}, set[str]()),
        (
            {"obj)": "obj, timeout=None)", "dequeue(self": "dequeue(self, timeout=None"},
            {"deadlines"},
        ),
        ({"dequeue(self": "dequeue(self, timeout=None"}, set[str]()),
        ({"dequeue(self": "dequeue(self, cancel=None"}, {"cancel"}),
        ({"    def enqueue": "    def shutdown(self): ...\n    def enqueue"}, {"cancel"}),
    ],
)
def test_capabilities_follow_what_the_queue_takes(
    tmp_path: Path, changes: dict[str, str], more: set[str]
) -> None:
    text = OLDEST
    for old, new in changes.items():
        text = text.replace(old, new)
    assert target(tmp_path, text).capabilities == ALWAYS | more


def test_the_optional_protocols_are_there(tmp_path: Path) -> None:
    built = target(tmp_path, OLDEST)
    for protocol in (Cancels, HasRing, HasSlots, HasPoints):
        assert isinstance(built, protocol)


def test_a_file_without_a_queue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="no message queue"):
        target(tmp_path, "")


def test_a_file_that_is_no_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotWork, match=r"shm_broadcast\.py"):
        target(tmp_path, "class")


def test_what_the_release_lacks_is_unsupported(tmp_path: Path) -> None:
    built = target(tmp_path, OLDEST)
    with pytest.raises(UnsupportedByTarget, match="deadlines"):
        built.send(SimpleNamespace(enqueue=print), 1, 0.5)
    with pytest.raises(UnsupportedByTarget, match="no way to end"):
        built.cancel(object())
    for shape in (QueueShape(max_buffers=3), QueueShape(max_buffer_bytes=3)):
        with pytest.raises(UnsupportedByTarget, match="limits"):
            built.make(shape)


def test_it_must_be_loaded_first(tmp_path: Path) -> None:
    with pytest.raises(CannotWork, match="not loaded"):
        target(tmp_path, OLDEST).make(QueueShape())


def test_errors_are_told_apart(tmp_path: Path) -> None:
    built = target(tmp_path, OLDEST)
    cases = [TimeoutError(), zmq.Again(), RuntimeError("cancelled"), RuntimeError("else")]
    words = [built.classify(error) for error in cases]
    assert words == ["timeout", "timeout", "cancelled", "error"]


def test_its_own_code_is_known_by_its_file(tmp_path: Path) -> None:
    built = target(tmp_path, OLDEST)
    path = tmp_path / FOLDER / "shm_broadcast.py"
    assert built.is_own_code(compile("1", str(path), "exec"))
    assert not built.is_own_code(compile("1", str(path.with_name("other.py")), "exec"))


def test_what_was_replaced_can_be_told(tmp_path: Path) -> None:
    built = target(tmp_path, OLDEST)
    assert str(tmp_path) in built.notes[0]
    assert any("SPINLOOP" in note for note in built.notes)


class TestTheWire:
    """Where a handle's address stands differs by release; what is read and put there does not."""

    @dataclass
    class Newer:
        remote_subscribe_addr: str | None = None

    @dataclass
    class Older:
        connect_ip: str = "127.0.0.1"
        remote_subscribe_port: int | None = None

    @pytest.mark.parametrize(
        ("handle", "address"),
        [
            (Newer("tcp://10.0.0.1:5"), "10.0.0.1:5"),
            (Newer("tcp://[::1]:5"), "[::1]:5"),
            (Older("10.0.0.1", 5), "10.0.0.1:5"),
            (Older("::1", 5), "[::1]:5"),
        ],
    )
    def test_an_address_is_read_and_replaced(self, handle: Any, address: str) -> None:
        assert wire.addresses(handle) == [address]
        for other in ("127.0.0.1:99", "[::1]:99"):
            moved = wire.rerouted(handle, {address: other})
            assert wire.addresses(moved) == [other]
            assert wire.addresses(handle) == [address]
        assert wire.rerouted(handle, {"else:1": "x:2"}) == handle

    @pytest.mark.parametrize("handle", [Newer(), Older()])
    def test_a_queue_of_local_readers_has_none(self, handle: Any) -> None:
        assert wire.addresses(handle) == []

    def test_remote_readers_are_offered_where_the_queue_takes_an_address(
        self, tmp_path: Path
    ) -> None:
        made = "    def __init__(self, n_reader, n_local_reader, connect_ip=None): ...\n"
        text = OLDEST.replace("    def enqueue", f"{made}    def enqueue")
        built = target(tmp_path, text)
        assert built.capabilities == ALWAYS | {"remote", "wire"}
        assert isinstance(built, HasWire)

    def test_remote_readers_are_unsupported_elsewhere(self, tmp_path: Path) -> None:
        with pytest.raises(UnsupportedByTarget, match="remote"):
            target(tmp_path, OLDEST).make(QueueShape(remote=1))
