"""A replica as its supervisor keeps it: what is known of its processes, and their end."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from refengine.base import ownership
from refengine.engine.core.process import CoreInit
from refengine.engine.protocol import Close, ReplicaDown, UnlinkKv
from refengine.engine.settings import EngineSettings
from refengine.engine.supervisor.replica import Replica
from refengine.executor.process import ChildProcess, has_ended, send_signal

from ...roles import Role, descriptors, until
from ..pools import NOBODY
from ..relayed import Core

_FORK = multiprocessing.get_context("fork")


class Kept:
    """A replica, what its process is told, and its workers."""

    def __init__(self, workers: int = 0, *, serves: bool = True) -> None:
        folder = ownership.new_directory()
        self.workers = [_FORK.Process(target=signal.pause) for _ in range(workers)]
        for each in self.workers:
            each.start()
        init = CoreInit("core-0", 0, 3, EngineSettings(), str(folder), False)
        self.core = Core(init, serves=serves, workers=tuple(each.pid for each in self.workers))
        self.replica = Replica(init, self.core.start)
        self.folder = Path(folder)

    def hear(self) -> list[Any]:
        """What comes of it next."""
        assert wait([self.replica.link], 5.0)
        return self.replica.hear()

    def close(self) -> None:
        self.replica.end()
        for each in self.workers:
            each.kill()
            each.join(5.0)


def pidfds() -> int:
    """How many processes this one holds by a descriptor."""
    fds = [Path(f"/proc/self/fd/{number}") for number in descriptors()]
    return sum(str(fd.readlink()) == "anon_inode:[pidfd]" for fd in fds if fd.is_symlink())


@pytest.fixture
def keep() -> Iterator[Callable[..., Kept]]:
    made: list[Kept] = []

    def new(*args: Any, **given: Any) -> Kept:
        made.append(Kept(*args, **given))
        return made[-1]

    yield new
    for each in made:
        each.close()


def test_once_it_serves_it_is_known_where_and_by_which_processes(keep: Any) -> None:
    kept = keep(2)
    replica = kept.replica
    assert (replica.name, replica.life, replica.listens, replica.votes) == ("core-0", 3, True, "")
    assert replica.pids() == {"core-0": replica.pid}
    assert kept.hear() == [kept.core.ready]
    assert replica.votes == kept.core.ready.votes
    names = ["core-0", "core-0/worker-0", "core-0/worker-1"]
    assert replica.pids() == dict(
        zip(names, [replica.pid, *(each.pid for each in kept.workers)], strict=True)
    )
    kept.workers[0].kill()
    until(lambda: "core-0/worker-0" not in replica.pids(), 5.0)
    assert replica.hear() == []
    assert replica.listens


def test_what_is_said_comes_in_order_both_ways(keep: Any) -> None:
    kept = keep()
    kept.hear()
    kept.core.say(UnlinkKv("a"), UnlinkKv("b"))
    found: list[Any] = []
    while len(found) < 2:
        found += kept.hear()
    assert found == [UnlinkKv("a"), UnlinkKv("b")]
    kept.replica.say(UnlinkKv("c"))
    until(lambda: kept.core.told(UnlinkKv) == [UnlinkKv("c")], 5.0)


def test_one_that_has_ended_says_why_if_it_can(keep: Any) -> None:
    kept = keep()
    kept.hear()
    kept.core.say(ReplicaDown("its workers failed"))
    kept.hear()
    assert kept.replica.cause() == "has ended: its workers failed"


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGKILL, "SIGKILL"), (signal.SIGUSR1, "SIGUSR1")],
)
def test_one_that_was_killed_is_dead_of_that_signal(number: int, told: str, keep: Any) -> None:
    kept = keep()
    kept.hear()
    os.kill(kept.replica.pid, number)
    assert wait([kept.replica.sentinel], 5.0)
    until(lambda: kept.replica.hear() or not kept.replica.listens, 5.0)
    assert told in kept.replica.cause()
    assert kept.replica.pids() == {}
    kept.replica.say(Close())  # to nobody


def test_one_that_left_by_itself_has_a_status(keep: Any) -> None:
    kept = keep()
    kept.replica.leave()
    assert wait([kept.replica.sentinel], 5.0)
    assert kept.core.told(Close) == [Close()]
    assert "status 0" in kept.replica.cause()


def test_one_that_is_still_there_was_ended_for_another_reason(
    keep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica, waits = keep().replica, list[float]()
    with monkeypatch.context() as patch:
        patch.setattr(replica._core, "outcome", waits.append)
        assert replica.cause() == "was ended"
    assert waits == [0.5]


@pytest.mark.parametrize("stopped", [False, True])
def test_ended_neither_process_nor_folder_is_left(stopped: bool, keep: Any) -> None:
    before = pidfds()
    kept = keep(1)
    kept.hear()
    pid = kept.replica.pid
    (kept.folder / "front").touch()
    if stopped:
        for each in (pid, kept.workers[0].pid):
            os.kill(each, signal.SIGSTOP)
    kept.replica.end()
    assert not Path(f"/proc/{pid}").exists()
    kept.workers[0].join(5.0)
    assert kept.workers[0].exitcode == -signal.SIGKILL
    assert not kept.folder.exists()
    assert kept.replica.link.closed
    assert pidfds() == before
    assert kept.replica.pids() == {}


def test_it_may_leave_by_itself_for_so_long(keep: Any) -> None:
    kept = keep()
    kept.hear()
    kept.replica.leave()
    kept.replica.end(5.0)
    assert "status 0" in kept.replica.cause()


def test_what_its_dead_workers_left_is_swept_with_it(keep: Any) -> None:
    kept = keep()
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(tells, str(ownership.new_directory()).encode())
        os._exit(0)
    left = Path(os.read(told, 1 << 12).decode())
    os.waitpid(pid, 0)
    assert left.exists()
    kept.replica.end()
    assert not left.exists()


def test_one_that_cannot_be_started_leaves_nothing() -> None:
    folder = ownership.new_directory()
    init = CoreInit("core-0", 0, 1, EngineSettings(), str(folder), False)
    ends: list[Any] = []

    def start(_: CoreInit, *given: Any) -> Any:
        ends.extend(given)
        raise OSError("no process")

    with pytest.raises(OSError, match="no process"):
        Replica(init, start)
    assert [end.closed for end in ends] == [True, True]
    assert not folder.exists()


def test_it_ends_with_whoever_keeps_it_though_a_fork_of_that_one_lives_on() -> None:
    def use(say: Callable[[Any], None]) -> None:
        kept = Kept()
        kept.hear()
        other = os.fork()
        if other == 0:
            while True:
                signal.pause()
        say((kept.replica.pid, other))
        signal.pause()

    with Role(use) as role:
        core, other = (ChildProcess(pid) for pid in role.hear())
        try:
            role.kill()
            assert has_ended(core, 5.0)
            assert not has_ended(other)
        finally:
            send_signal(other, signal.SIGKILL)
            core.close()
            other.close()
    ownership.remove_stale_names()


def test_workers_that_nobody_knows_are_nobodys(keep: Any) -> None:
    kept = keep()
    kept.core.say(kept.core.ready)
    kept.hear()
    assert kept.core.ready.workers == (NOBODY,)
    assert list(kept.replica.pids()) == ["core-0"]
