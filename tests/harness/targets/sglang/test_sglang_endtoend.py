"""Published releases carry messages between processes, to local readers and to remote ones."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from killpoint.errors import CannotWork
from killpoint.targets import sglang
from killpoint.targets.protocol import QueueShape
from killpoint.targets.sglang.adapter import SglangTarget

pytestmark = pytest.mark.network

SPREAD = ["0.4.0", "0.4.6", "0.5.9", "0.5.23"]
"""The first with a queue; two whose neighbours had moved; the newest tried, a wheel."""
LARGE = bytes(200_000)
MESSAGES = [{"small": 1}, LARGE, "last"]
Elsewhere = Callable[..., Any]
Report = dict[str, Any]


@pytest.fixture
def published() -> Callable[[str], str]:
    """Resolve a real release; without a network the test is skipped, but never where CI is set."""

    def resolve(version: str) -> str:
        try:
            return sglang.resolve(f"sglang=={version}")
        except CannotWork as error:
            if os.environ.get("CI") or "no package index" not in str(error):
                raise
            pytest.skip(f"no package index: {error}")

    return resolve


def carry(spec: str, shape: QueueShape) -> Report:
    """One process writes, the others read; what each of them saw."""
    target = sglang.build(spec)
    assert isinstance(target, SglangTarget)
    target.load()
    fork = multiprocessing.get_context("fork")
    seen: list[tuple[int, int, int]] = []

    @contextmanager
    def note(slot: int, flag: int, value: int) -> Generator[None]:
        yield
        seen.append((slot, flag, value))

    def reader(rank: int, pipe: Any) -> None:
        target.observe(note)
        end = target.attach(pickle.loads(pipe.recv_bytes()), rank)
        target.ready(end, None)
        messages = [target.receive(end, None) for _ in MESSAGES]
        pipe.send((messages == MESSAGES, target.position(end), seen))

    pipes = [fork.Pipe() for _ in range(shape.readers)]
    roles = [fork.Process(target=reader, args=(n, far)) for n, (_, far) in enumerate(pipes)]
    for role in roles:
        role.start()
    target.observe(note)
    end = target.make(shape)
    handle = target.handle(end)
    for pipe, _ in pipes:
        pipe.send_bytes(pickle.dumps(handle))
    target.ready(end, None)
    for message in MESSAGES:
        target.send(end, message, None)
    found: list[Any] = []
    for (pipe, _), role in zip(pipes, roles, strict=True):
        assert pipe.poll(20), "a reader did not end"
        found.append(pipe.recv())
        role.join(5)
        assert role.exitcode == 0
    target.close(end)
    return {"readers": found, "stores": seen, "addresses": target.addresses(handle)}


@pytest.mark.parametrize("version", SPREAD)
def test_messages_arrive_near_and_far_and_every_store_is_seen(
    version: str, published: Callable[[str], str], elsewhere: Elsewhere
) -> None:
    shape = QueueShape(readers=2, remote=1, chunk_bytes=64 * 1024, chunks=2)
    found = elsewhere(carry, published(version), shape)
    near, far = found["readers"]
    assert near == (True, 1, [(0, 1, 1), (1, 1, 1), (0, 1, 1)])
    assert far == (True, -1, [])
    fill = [(0, 0), (1, 0), (0, 1)]
    assert found["stores"] == [(slot, flag, value) for slot in (0, 1, 0) for flag, value in fill]
    assert len(found["addresses"]) == 1
    assert found["addresses"][0].startswith("127.0.0.1:")


@pytest.mark.parametrize(("readers", "remote", "host"), [(1, 0, "::1"), (2, 2, "::1")])
def test_the_topologies_at_the_edges_work_too(
    readers: int, remote: int, host: str, published: Callable[[str], str], elsewhere: Elsewhere
) -> None:
    shape = QueueShape(readers=readers, remote=remote, chunk_bytes=64 * 1024, host=host)
    found = elsewhere(carry, published(SPREAD[-1]), shape)
    assert [whole for whole, _, _ in found["readers"]] == [True] * readers
    assert [address.rpartition(":")[0] for address in found["addresses"]] == ["[::1]"][:remote]
