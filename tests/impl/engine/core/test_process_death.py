"""A core in a process of its own: what it is to others, and that it does not outlive its parent."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from refengine.base import ownership
from refengine.base.fds import Fd
from refengine.engine.core.process import CoreInit, core_main
from refengine.engine.protocol import Close, Ready, ReplicaDown
from refengine.engine.settings import EngineSettings
from refengine.executor.process import ChildProcess, has_ended, send_signal

from ...roles import Role, leftovers
from ..pools import Pool


@dataclass
class Living:
    """A core in a forked role, its worker, and our ends of what holds it."""

    role: Role
    link: Connection
    alive: Connection
    worker: ChildProcess
    folder: Path

    def end(self) -> None:
        for each in (self.link, self.alive):
            each.close()
        self.role.kill()
        send_signal(self.worker, signal.SIGKILL)
        self.worker.close()


def living(parent: int | None = None) -> Living:
    """``parent``: pid of the parent that it is told of; None: it has it."""
    link, theirs = multiprocessing.Pipe()
    hears, alive = multiprocessing.Pipe(duplex=False)

    def live(say: Callable[[Any], None]) -> None:
        link.close()
        alive.close()
        worker = worker_with_a_folder()
        folder, _ = str(ownership.new_directory()), ownership.new_directory()
        say((worker, folder))
        init = CoreInit("core-7", 7, 1, EngineSettings(), folder, False)
        supervisor = Fd(os.pidfd_open(parent or os.getppid()))
        core_main(init, theirs, hears, supervisor, Pool((worker,)).stepper)

    role = Role(live)
    theirs.close()
    hears.close()
    worker, folder = role.hear()
    return Living(role, link, alive, ChildProcess(worker), Path(folder))


def worker_with_a_folder() -> int:
    """The pid of a child that does nothing."""
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        ownership.new_directory()
        os.write(tells, b"!")
        while True:
            signal.pause()
    os.read(told, 1)
    return pid


def serving(core: Living) -> Living:
    assert core.link.poll(10.0)
    assert isinstance(core.link.recv(), Ready)
    return core


def test_it_has_a_name_and_leaves_the_terminal_and_other_users_alone() -> None:
    core = serving(living())
    try:
        process = Path(f"/proc/{core.role.pid}")
        assert process.joinpath("comm").read_text() == "refengine:core-\n"
        assert "Umask:\t0077" in process.joinpath("status").read_text()
        os.kill(core.role.pid, signal.SIGINT)
        core.link.send(Close())
        assert core.link.poll(10.0)
        assert core.link.recv() == ReplicaDown("it was told to close")
        assert core.role.wait() == 0
        assert not core.folder.exists()
    finally:
        core.end()


def test_without_its_parent_it_goes_at_once_with_its_workers_and_what_they_had() -> None:
    core = serving(living())
    try:
        core.link.close()
        assert os.waitstatus_to_exitcode(core.role.wait()) == 1
        assert has_ended(core.worker)
        assert not core.folder.exists()
        assert leftovers(core.role.pid) == leftovers(core.worker.pid) == []
    finally:
        core.end()


def test_its_parent_is_gone_though_the_link_lives_on_in_a_fork_of_the_parents() -> None:
    supervisor = os.fork()
    if supervisor == 0:
        while True:
            signal.pause()
    core = serving(living(supervisor))
    os.kill(supervisor, signal.SIGKILL)
    os.waitpid(supervisor, 0)
    try:
        assert os.waitstatus_to_exitcode(core.role.wait()) == 1
        assert not core.folder.exists()
    finally:
        core.end()


def test_the_kernel_ends_it_when_its_parent_has_died_whatever_it_is_at() -> None:
    core = serving(living())
    try:
        core.alive.close()
        assert os.waitstatus_to_exitcode(core.role.wait()) == -signal.SIGALRM
    finally:
        core.end()
