"""A zygote that is a fork of its owner, and one whose owner is gone though its link is not (W4)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from refengine.executor import Zygote, fork_server
from refengine.executor.fork_server import ForkedWorker
from refengine.executor.process import Outcome, link_pair

from ..roles import Role
from .test_deaths import gone
from .workers import pool

_HERE = f"{__name__}:entered"


def entered(link: Any) -> int:
    """What a child runs."""
    link.send(sorted(name for name in ("refengine.executor", "no.such") if name in sys.modules))
    return 3


def line(pid: int, file: str) -> str:
    return Path(f"/proc/{pid}/{file}").read_text()


def test_it_forks_workers_with_what_its_owner_has_imported_and_ends_with_it() -> None:
    def owner(say: Any) -> None:
        made = Zygote.fork_self(())
        say([made is Zygote.shared(()), line(made.pid, "cmdline") == line(os.getpid(), "cmdline")])
        with pool(start="zygote") as workers:
            say([workers.collective_rpc("pid", 5.0) == workers.pids, made.pid, workers.pids])
            parents = [line(pid, "stat").rpartition(")")[2].split()[1] for pid in workers.pids]
            say(parents == [str(made.pid)] * 2)
        say([os.getpgid(made.pid) == made.pid, line(made.pid, "comm")])
        signal.pause()

    with Role(owner) as role:
        assert role.hear() == [True, True]
        answered, zygote, workers = role.hear()
        assert answered
        assert role.hear()
        assert role.hear() == [True, "refengine:zygot\n"]
        gone(workers)
        role.kill()
        gone([zygote])


def test_a_child_runs_what_it_is_asked_to_run() -> None:
    def owner(say: Any) -> None:
        made = Zygote.fork_self(("refengine.executor",))
        ours, theirs = link_pair()
        child = made.fork(theirs, "child", _HERE)
        theirs.close()
        say(ours.receive()[0])
        say(child.outcome(5.0) == Outcome(status=3))
        made.close()

    with Role(owner) as role:
        assert role.hear() == ["refengine.executor"]
        assert role.hear() is True


def test_one_with_threads_or_without_a_module_is_not_forked() -> None:
    with pytest.raises(RuntimeError, match=r"no\.such.* are not imported"):
        Zygote.fork_self(("no.such",))
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        with pytest.raises(RuntimeError, match="threads"):
            Zygote.fork_self(())
    finally:
        done.set()
        other.join()
    assert fork_server._shared.get(("no.such",)) is None


@pytest.mark.parametrize("forks_itself", [True, False])
def test_it_ends_with_its_owner_though_another_process_holds_the_link(forks_itself: bool) -> None:
    def owner(say: Any) -> None:
        made = Zygote.fork_self(()) if forks_itself else Zygote(())
        made.warm(20.0)
        ours, theirs = link_pair()
        child: ForkedWorker = made.fork(theirs, "child")
        held = os.dup(made._link.fileno()), os.dup(ours.fileno())
        other = os.fork()
        if other == 0:
            while held:
                signal.pause()
        say([made.pid, child.pid, other])
        signal.pause()

    with Role(owner) as role:
        zygote, child, other = role.hear()
        role.kill()
        try:
            gone([zygote, child])
        finally:
            os.kill(other, signal.SIGKILL)
