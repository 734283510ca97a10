"""A zygote that is a fork of this process, so that what it does can be looked at (W4, W9)."""

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import Zygote, ZygoteFailed, fork_server
from refengine.executor.fork_server import ForkedWorker
from refengine.executor.process import Link, Outcome, has_ended, link_pair

from ...roles import Role, descriptors, until
from ..test_deaths import gone
from ..workers import pool


def forked_main(preload, descriptors) -> int:
    """As `_run`, without a new interpreter."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        fork_server._shared.clear()
        for fd in descriptors:
            os.set_inheritable(fd, True)
        sys.argv = ["-c", "[]", *map(str, descriptors), *preload]
        fork_server.main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 71
    finally:
        os._exit(code)


@pytest.fixture
def forks(monkeypatch):
    """Zygotes of this test are forks, and end with it."""
    monkeypatch.setattr(fork_server, "_spawn", forked_main)
    shared: dict[tuple[str, ...], Zygote] = {}
    monkeypatch.setattr(fork_server, "_shared", shared)
    yield
    for made in list(shared.values()):
        made.close()


@pytest.fixture
def warm(forks):
    made = Zygote(())
    made.warm(20.0)
    yield made
    made.close()


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def caught(pid: int, field: str) -> set[int]:
    bits = int(status_of(pid)[field], 16)
    return {n + 1 for n in range(64) if bits >> n & 1}


def born(made: Zygote, name: str = "worker") -> tuple[Link, ForkedWorker]:
    ours, theirs = link_pair()
    offspring = made.fork(theirs, name)
    theirs.close()
    return ours, offspring


def test_it_is_a_quiet_process_of_its_own(warm):
    pid = warm.pid
    assert os.getpgid(pid) == pid
    assert Path(f"/proc/{pid}/comm").read_text() == "refengine:zygot\n"
    assert str(Path(f"/proc/{pid}/fd/0").readlink()) == "/dev/null"
    until(lambda: {signal.SIGINT, signal.SIGTERM} <= caught(pid, "SigIgn"))
    until(lambda: signal.SIGCHLD in caught(pid, "SigCgt"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        os.kill(pid, number)
    ours, offspring = born(warm)
    ours.close()
    assert offspring.outcome(5.0) == Outcome(status=1)  # it was never told what it is
    offspring.close()
    before = len(descriptors(pid))
    for _ in range(3):
        ours, offspring = born(warm)
        ours.close()
        assert offspring.outcome(5.0) == Outcome(status=1)
        assert offspring.outcome(0.0) == Outcome(status=1)
        offspring.close()
        gone([offspring.pid])
    until(lambda: len(descriptors(pid)) <= before)


def test_it_adopts_what_its_children_leave_and_reaps_it(forks):
    with pool(1, start="zygote") as made:
        orphan = made.collective_rpc("child", 5.0, (["setsid", "sleep", "60"],))[0]
        first = Zygote.shared(())
        until(lambda: Path(f"/proc/{orphan}/comm").read_text() == "sleep\n")
    until(lambda: int(status_of(orphan)["PPid"]) == first.pid)
    os.kill(orphan, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{orphan}").exists())


def test_when_its_owner_lets_go_of_it_everything_it_forked_ends(forks, monkeypatch, tmp_path):
    assert 1.0 < fork_server._WORKERS_EXIT_WITHIN < 3.0  # a worker's kernel ends it within one
    monkeypatch.setattr(fork_server, "_WORKERS_EXIT_WITHIN", 0.3)
    asked = tmp_path / "asked"
    monkeypatch.setattr(fork_server, "await_end", lambda _, seconds: asked.write_text(str(seconds)))
    with pool(1, start="zygote") as made:
        orphan = made.collective_rpc("child", 5.0, (["setsid", "sleep", "60"],))[0]
        until(lambda: Path(f"/proc/{orphan}/comm").read_text() == "sleep\n")
    first = Zygote.shared(())
    first._link.close()
    assert has_ended(first._process, 5.0)
    assert first._process.outcome(1.0) == Outcome(status=0)
    assert not Path(f"/proc/{orphan}").exists()
    assert asked.read_text() == "0.3"  # for its owner's end, too: what that left is swept then


def test_it_waits_for_its_children_before_it_kills(forks, monkeypatch):
    monkeypatch.setattr(fork_server, "_WORKERS_EXIT_WITHIN", 0.8)

    def owner(say: Any) -> None:
        made = Zygote(())
        made.warm(20.0)
        ours, offspring = born(made)
        say([made.pid, offspring.pid])
        made._link.close()
        until(lambda: "poll" in Path(f"/proc/{made.pid}/wchan").read_text(), 5.0)
        say(has_ended(offspring, 0.3))
        ours.close()
        say([offspring.outcome(5.0) is not None, has_ended(made._process, 5.0)])
        os._exit(0)

    with Role(owner) as role:
        pids = role.hear()
        assert role.hear() is False
        assert role.hear() == [True, True]
    gone(pids)


def test_with_its_owner_it_ends_too_even_while_it_imports(forks, tmp_path, monkeypatch):
    (tmp_path / "takes_for_ever.py").write_text(
        f"import pathlib, signal\npathlib.Path({str(tmp_path / 'begun')!r}).write_text('')\n"
        "signal.pause()"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def owner(say: Any) -> None:
        made = Zygote(("takes_for_ever",))
        say(made.pid)
        try:
            made.warm(0.05)
        except TimeoutError as error:
            say(str(error))
        signal.pause()

    with Role(owner) as role:
        pid = role.hear()
        assert role.hear() == "the zygote has not imported ('takes_for_ever',) in 0.05 s"
        until((tmp_path / "begun").exists)
        role.kill()
        gone([pid], 1.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise LookupError('no ' + 'x' * 100_000 + ' weights')", "x weights"),
        ("import sys; sys.exit(5)", "SystemExit: 5"),
        (
            "import threading\n"
            "threading.Thread(target=threading.Event().wait, daemon=True).start()",
            "importing ['cannot_be'] started 1 threads: no fork is safe",
        ),
    ],
)
def test_what_it_cannot_import_is_told_and_it_ends(forks, tmp_path, monkeypatch, text, told):
    (tmp_path / "cannot_be.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    made = Zygote(("cannot_be",))
    for _ in range(2):
        with pytest.raises(ZygoteFailed) as failure:
            made.warm(20.0)
        assert told in failure.value.reason
        assert "Traceback" in failure.value.reason or len(failure.value.reason) > 20_000
        assert failure.value.pid == made.pid
    assert has_ended(made._process, 5.0)
    assert made._process.outcome(1.0) == Outcome(status=1)
    ours, theirs = link_pair()
    with pytest.raises(ZygoteFailed) as failure:
        made.fork(theirs, "x")
    assert told in failure.value.reason
    theirs.close()
    ours.close()
    made.close()


def test_told_goodbye_it_does_not_wait_for_the_end_of_its_owner_who_waits_for_its_own(
    forks, monkeypatch
):
    monkeypatch.setattr(fork_server, "_WORKERS_EXIT_WITHIN", 60.0)
    made = Zygote(())
    made.warm(20.0)
    process = SimpleNamespace(outcome=made._process.outcome, pidfd=made._process.pidfd, close=int)
    fork_server._end_zygote(made._link, made._death_pipe_writer, process)
    assert made._process.outcome(0.0) == Outcome(status=0)
    made.close()


def test_one_that_died_is_told_and_replaced(forks):
    first = Zygote.shared(())
    first.warm(20.0)
    assert Zygote.shared(()) is first
    os.kill(first.pid, signal.SIGKILL)
    assert has_ended(first._process, 5.0)
    ours, theirs = link_pair()
    with pytest.raises(ZygoteFailed, match="it has ended"):
        first.fork(theirs, "x")
    theirs.close()
    ours.close()
    second = Zygote.shared(())
    assert second is not first
    first.close()
    assert Zygote.shared(()) is second
    second.close()
    assert fork_server._shared == {}
    assert has_ended(second._process)


def test_one_that_died_before_it_had_imported_is_told(forks):
    made = Zygote(())
    os.kill(made.pid, signal.SIGKILL)
    assert has_ended(made._process, 5.0)
    ours, theirs = link_pair()
    with pytest.raises(ZygoteFailed, match="it has ended") as failure:
        made.fork(theirs, "x")
    ours.close()
    theirs.close()
    assert failure.value.pid == made.pid
    made.close()


class TestInside:
    """Single steps of the zygote, in this process."""

    @pytest.fixture
    def made(self):
        ours, theirs = link_pair()
        made = fork_server._ForkServer(theirs)
        yield made
        for fd in (made._wakeup_reader, made._wakeup_writer):
            os.close(fd)
        ours.close()
        theirs.close()

    def test_no_room_for_a_child_is_told_by_closing_the_report(self, made, monkeypatch):
        mine, theirs = link_pair()
        report, reported = link_pair()

        def no_room() -> int:
            raise BlockingIOError("EAGAIN")

        monkeypatch.setattr(fork_server.os, "fork", no_room)
        fds = [os.dup(theirs.fileno()), os.dup(reported.fileno())]
        for each in (theirs, reported):
            each.close()
        assert made._fork(fds) is None
        for link in (mine, report):
            with pytest.raises(EOFError):
                link.receive()
            link.close()
        assert made._reports == {}

    def test_the_end_of_a_child_is_reported_once(self, made):
        report, reported = link_pair()
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        made._reports[child] = reported
        made._reap()
        assert report.receive()[0] == 0
        assert made._reports == {}
        with pytest.raises(EOFError):
            report.receive()
        report.close()
        made._reap()

    def test_a_new_child_is_as_any_other_process(self, made, monkeypatch):
        """It is forked with a zygote's signal handlers and streams."""

        def child(say: Any) -> None:
            say_fd = os.dup(1)
            link, theirs = link_pair()
            _, reported = link_pair()
            _, sibling_report = link_pair()
            made._reports[7] = sibling_report
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, fork_server._on_sigchld)
            signal.set_wakeup_fd(made._wakeup_writer, warn_on_full_buffer=False)
            streams = [os.open(os.devnull, os.O_WRONLY) for _ in range(2)]
            found = made._become_worker(os.dup(theirs.fileno()), reported, streams)
            theirs.close()
            found.send("here")
            handlers = [signal.getsignal(n) for n in (signal.SIGCHLD, signal.SIGTERM)]
            say([
                handlers == [signal.SIG_DFL] * 2, signal.set_wakeup_fd(-1), link.receive()[0],
                reported.fileno(), sibling_report.fileno(), made._link.fileno(),
                len(made._reports),
                [str(Path(f"/proc/self/fd/{n}").readlink()) for n in (1, 2)],
                [is_open(fd) for fd in (made._wakeup_reader, made._wakeup_writer, *streams)],
            ])  # fmt: skip
            os.dup2(say_fd, 1)

        with Role(child) as role:
            assert role.hear() == [
                True, -1, "here", -1, -1, -1, 0, ["/dev/null"] * 2, [False] * 4
            ]  # fmt: skip


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
