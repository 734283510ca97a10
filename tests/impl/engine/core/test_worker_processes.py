"""Workers as whoever must end them knows them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from refengine.engine.core.worker_processes import WorkerProcesses

from ...roles import descriptors, until
from ..pools import NOBODY

_FORK = multiprocessing.get_context("fork")


@pytest.fixture
def pids() -> Iterator[list[int]]:
    made = [_FORK.Process(target=signal.pause) for _ in range(2)]
    for each in made:
        each.start()
    yield [each.pid or 0 for each in made]
    for each in made:
        each.kill()
        each.join(5.0)


def test_who_is_alive_is_told_by_rank(pids: list[int]) -> None:
    workers = WorkerProcesses([pids[0], NOBODY, pids[1]])
    assert workers.alive() == {0: pids[0], 2: pids[1]}
    os.kill(pids[0], signal.SIGKILL)
    until(lambda: workers.alive() == {2: pids[1]}, 5.0)
    workers.close()


def test_killed_they_are_gone_within_the_time_stopped_or_not(pids: list[int]) -> None:
    os.kill(pids[0], signal.SIGSTOP)
    workers = WorkerProcesses(pids)
    assert workers.kill(5.0)
    assert workers.alive() == {}
    assert workers.kill()  # nobody is left
    workers.close()


def test_what_a_worker_has_started_goes_with_it() -> None:
    told, tells = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        child = os.fork()
        os.write(tells, str(os.getpid() if child == 0 else 0).encode() + b" ")
        while True:
            signal.pause()
    said = b""
    while said.count(b" ") < 2:
        said += os.read(told, 99)
    child = max(map(int, said.split()))
    assert WorkerProcesses([worker]).kill(5.0)
    os.waitpid(worker, 0)
    until(lambda: "State:\tR" not in state(child) and "State:\tS" not in state(child), 5.0)


def state(pid: int) -> str:
    """What the kernel says of it; empty once it is gone."""
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""


def test_closed_no_descriptor_is_left(pids: list[int]) -> None:
    before = descriptors()
    workers = WorkerProcesses(pids)
    assert len(descriptors()) == len(before) + 2
    workers.close()
    assert descriptors() == before
    assert workers.alive() == {}
