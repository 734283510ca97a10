"""Published releases carry messages between two processes, forked after the import as in a run."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from killpoint.targets import vllm
from killpoint.targets.protocol import QueueShape
from killpoint.targets.vllm.adapter import VllmTarget

pytestmark = pytest.mark.network

NEWEST, GENERATION_A = "0.33.0", "0.11.0"
SPREAD = ["0.6.4", "0.8.5", GENERATION_A, "0.18.0", NEWEST]
LARGE = bytes(200_000)
SHAPE = QueueShape(readers=1, chunk_bytes=64 * 1024, chunks=2)
Fetch = Callable[[str], str]
Elsewhere = Callable[..., Any]
Report = dict[str, Any]
Role = Callable[[VllmTarget, Any, Connection], Any]


def loaded(spec: str) -> VllmTarget:
    target = vllm.build(spec)
    assert isinstance(target, VllmTarget)
    target.load()
    return target


def pair(spec: str, write: Role, read: Role, *, watch: bool = False) -> tuple[Any, Any]:
    """One process writes, another reads; what each of them returns."""
    target = loaded(spec)
    fork = multiprocessing.get_context("fork")
    pipe, far = fork.Pipe()
    seen: list[tuple[int, int, int]] = []

    @contextmanager
    def note(slot: int, flag: int, value: int) -> Generator[None]:
        yield
        seen.append((slot, flag, value))

    def reader() -> None:
        if watch:
            target.observe(note)
        end = target.attach(pickle.loads(far.recv_bytes()), 0)
        target.ready(end, 5)
        result = read(target, end, far)
        far.send((result, seen))

    process = fork.Process(target=reader)
    process.start()
    if watch:
        target.observe(note)
    end = target.make(SHAPE)
    pipe.send_bytes(pickle.dumps(target.handle(end)))
    target.ready(end, 5)
    written = write(target, end, pipe)
    assert pipe.poll(20), "the reader did not end"
    read_result, read_seen = pipe.recv()
    process.join(5)
    assert process.exitcode == 0
    target.close(end)
    return (written, list(seen)) if watch else written, (read_result, read_seen)


def limit(target: VllmTarget) -> float | None:
    return 10 if "deadlines" in target.capabilities else None


def outcome(target: VllmTarget, call: Callable[[], Any]) -> tuple[str, float]:
    start = time.monotonic()
    try:
        call()
    except Exception as error:
        return target.classify(error), time.monotonic() - start
    return "ok", time.monotonic() - start


def send_three(target: VllmTarget, end: Any, _: Connection) -> None:
    for message in ({"small": 1}, LARGE, "last"):
        target.send(end, message, limit(target))


def receive_three(target: VllmTarget, end: Any, _: Connection) -> Report:
    messages = [target.receive(end, limit(target)) for _ in range(3)]
    return {
        "equal": messages == [{"small": 1}, LARGE, "last"],
        "position": target.position(end),
        "flags": target.flags(end, 0) + target.flags(end, 1),
        "overflowed": [target.overflowed(end, slot) for slot in range(2)],
    }


def carry(spec: str, watch: bool) -> tuple[Any, Any]:
    return pair(spec, send_three, receive_three, watch=watch)


@pytest.mark.parametrize("version", SPREAD)
def test_small_and_overflowing_messages_arrive(
    version: str, published: Fetch, elsewhere: Elsewhere
) -> None:
    _, (report, _) = elsewhere(carry, published(version), False)
    assert report == {
        "equal": True,
        "position": 1,
        "flags": b"\1\1\1\1",
        "overflowed": [False, True],
    }


@pytest.mark.parametrize("version", SPREAD)
def test_every_store_is_seen_in_order(version: str, published: Fetch, elsewhere: Elsewhere) -> None:
    (_, by_writer), (report, by_reader) = elsewhere(carry, published(version), True)
    assert report["equal"]
    fill = [(0, 0), (1, 0), (0, 1)]
    assert by_writer == [(slot, flag, value) for slot in (0, 1, 0) for flag, value in fill]
    assert by_reader == [(0, 1, 1), (1, 1, 1), (0, 1, 1)]


def wait_in_vain(target: VllmTarget, end: Any, pipe: Connection) -> Report:
    late = outcome(target, lambda: target.receive(end, 0.2))
    threading.Timer(0.2, target.cancel, (end,)).start()
    woken = outcome(target, lambda: target.receive(end, 10))
    pipe.send("waited")
    pipe.recv()
    return {"late": late, "woken": woken, "then": target.receive(end, 0)}


def send_after(target: VllmTarget, end: Any, pipe: Connection) -> Report:
    assert pipe.recv() == "waited"
    target.send(end, 1, 1)
    target.send(end, 2, 1)
    full = outcome(target, lambda: target.send(end, 3, 0.2))
    pipe.send("sent")
    return {"full": full}


def wait(spec: str) -> tuple[Any, Any]:
    return pair(spec, send_after, wait_in_vain)


@pytest.mark.parametrize("version", ["0.8.5", GENERATION_A, NEWEST])
def test_deadlines_and_cancelling_end_a_wait(
    version: str, published: Fetch, elsewhere: Elsewhere
) -> None:
    written, (read, _) = elsewhere(wait, published(version))
    for word, (found, seconds) in (
        ("timeout", written["full"]),
        ("timeout", read["late"]),
        ("cancelled", read["woken"]),
    ):
        assert found == word
        assert 0.15 < seconds < 5
    assert read["then"] == 1


def write_raw(target: VllmTarget, end: Any, _: Connection) -> Report:
    with target.ring_write(end, limit(target)) as slot:
        slot[:4] = b"mark"
    return {"length": SHAPE.chunk_bytes}


def read_raw(target: VllmTarget, end: Any, _: Connection) -> Report:
    with target.ring_read(end, limit(target)) as slot:
        return {"bytes": bytes(slot[:4]), "length": len(slot)}


def raw(spec: str) -> tuple[Any, Any]:
    return pair(spec, write_raw, read_raw)


@pytest.mark.parametrize("version", SPREAD)
def test_one_slot_at_a_time(version: str, published: Fetch, elsewhere: Elsewhere) -> None:
    written, (read, _) = elsewhere(raw, published(version))
    assert read == {"bytes": b"mark", "length": written["length"]}


def attach_to(spec: str) -> list[str]:
    target = loaded(spec)
    end = target.make(SHAPE)
    name = end.buffer.shared_memory.name
    larger = QueueShape(readers=4, chunk_bytes=1024 * 1024, chunks=8)
    wrong = ((SHAPE, "no-such-segment"), (larger, name), (SHAPE, name))
    return [outcome(target, lambda of=of: target.ring_attach(*of))[0] for of in wrong]


@pytest.mark.parametrize("version", [GENERATION_A, NEWEST])
def test_a_missing_or_small_segment_is_noticed_at_the_latest_at_the_first_look(
    version: str, published: Fetch, elsewhere: Elsewhere
) -> None:
    assert elsewhere(attach_to, published(version)) == ["error", "error", "ok"]


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def look_around(spec: str) -> Report:
    before = threads()
    target = loaded(spec)
    return {
        "more threads": threads() - before,
        "own": target.is_own_code(target.module.MessageQueue.enqueue.__code__),
        "outside": target.is_own_code(threading.Timer.run.__code__),
    }


@pytest.mark.parametrize("version", [GENERATION_A, NEWEST])
def test_the_import_starts_no_thread_and_its_code_is_known(
    version: str, published: Fetch, elsewhere: Elsewhere
) -> None:
    found = elsewhere(look_around, published(version))
    assert found == {"more threads": 0, "own": True, "outside": False}
