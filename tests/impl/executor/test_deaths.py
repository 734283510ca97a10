"""Workers and parents that die, stop, spin or are told to leave (SPEC W3, W4, W5)."""

import contextlib
import os
import select
import signal
import tempfile
import time
from multiprocessing import forkserver, process
from pathlib import Path

import pytest

from refengine.executor import StartFailed, WorkerDied

from ..roles import Role, leftovers, until
from .workers import GRACE, pool

METHODS = ["fork", "spawn", "forkserver", "zygote"]


def gone(pids, seconds=5.0):
    """Wait until none of them runs any more; a zombie nobody reaps counts as gone."""

    def runs(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False

    until(lambda: not any(runs(pid) for pid in pids), seconds)


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_worker_is_named_and_the_pool_ends(method):
    told = []
    with pool(start=method, on_failure=lambda: told.append(1)) as made:
        with pytest.raises(WorkerDied) as death:
            made.collective_rpc("die", 5.0, (1,))
        assert (death.value.rank, death.value.pid, death.value.signal) == (1, made.pids[1], 9)
        with pytest.raises(WorkerDied):
            made.collective_rpc("pid")
        with pytest.raises(WorkerDied):
            made.check_health()
        gone(made.pids)
        until(lambda: made.state == "STOPPED")
    assert told == [1]


def test_an_idle_pool_hears_of_a_death_too():
    told = []
    with pool(on_failure=lambda: told.append(1)) as made:
        made.on_failure(lambda: told.append(2))
        os.kill(made.pids[0], signal.SIGKILL)
        until(lambda: told == [1, 2])
        made.on_failure(lambda: told.append(3))
    assert told == [1, 2, 3]


def test_a_death_is_told_at_once_to_whoever_waits_for_another_rank(tmp_path):
    with pool(grace=20.0) as made:
        begin = time.monotonic()
        future = made.collective_rpc(
            "wait_for", None, (str(tmp_path / "never"), 0), non_block=True, unique_reply_rank=0
        )
        os.kill(made.pids[1], signal.SIGKILL)
        with pytest.raises(WorkerDied):
            future.result(20.0)
        assert time.monotonic() - begin < 10.0
        os.kill(made.pids[0], signal.SIGKILL)  # rather than wait for the grace


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_told_to_leave_does_so_in_good_order(number, tmp_path):
    with pool(options={"marks": str(tmp_path)}) as made:
        os.kill(made.pids[1], number)
        with pytest.raises(WorkerDied, match=signal.Signals(number).name):
            made.collective_rpc("wait_for", 5.0, (str(tmp_path / "never"), 1))
        gone(made.pids)
        assert (tmp_path / "left-1").exists()


def test_a_worker_that_exits_by_itself_is_told_with_its_status():
    with pool() as made, pytest.raises(WorkerDied, match="status 7"):
        made.collective_rpc("hard_exit", 5.0, (7,))


@pytest.mark.parametrize("how", ["stop", "sit", "spin"])
def test_shutdown_ends_a_worker_that_does_not_listen_within_its_graces(how, tmp_path):
    made = pool(options={"marks": str(tmp_path)}, in_flight=2)
    if how == "stop":
        os.kill(made.pids[1], signal.SIGSTOP)
    else:
        made.collective_rpc(how, None, (1,), non_block=True)
        until(lambda: any(tmp_path.iterdir()))
    begin = time.monotonic()
    made.shutdown()
    assert time.monotonic() - begin < 2 * GRACE + 7
    gone(made.pids)
    assert made.state == "STOPPED"


def test_what_a_worker_started_goes_with_it():
    with pool(1) as made:
        child = made.collective_rpc("child", 5.0, (["sleep", "60"],))[0]
        os.kill(made.pids[0], signal.SIGKILL)
        gone([child])
    with pool(1) as made:
        child = made.collective_rpc("child", 5.0, (["sleep", "60"],))[0]
    gone([child])


def parent(say, method, folder, work, temporary):
    """Owns a pool whose workers are busy; says who they are, and waits to be killed."""
    options = {"marks": folder}
    server = forkserver._forkserver  # a fork cannot use its parent's
    server._forkserver_pid = server._forkserver_address = server._forkserver_alive_fd = None
    process.current_process()._config.pop("tempdir", None)
    tempfile.tempdir = temporary
    if work.startswith("loading"):
        options |= {"fail": work, "at": 1}
        say([])
    made = pool(start=method, options=options, in_flight=2)
    if work == "child":
        say([*made.pids, *made.collective_rpc("child", 5.0, (["sleep", "60"],))])
        made.collective_rpc("spin", None, non_block=True)
    else:
        say(made.pids)
        if work != "idle":
            made.collective_rpc(work, None, non_block=True)
    select.select([], [], [], 60)


@pytest.mark.parametrize(
    ("method", "work"),
    [(m, w) for m in METHODS for w in ("idle", "sit", "child")]
    + [("fork", "spin"), ("fork", "loading:sit"), ("zygote", "loading:sit")],
)
def test_workers_are_gone_when_their_parent_is_killed(method, work, tmp_path):
    with (
        tempfile.TemporaryDirectory(prefix="t") as temporary,  # short: there is a socket in it
        Role(parent, method, str(tmp_path), work, temporary) as role,
    ):
        pids = role.hear()
        assert isinstance(pids, list), pids
        if work != "idle":
            wanted = 1 if work.startswith("loading") else 2
            until(lambda: len(list(tmp_path.iterdir())) >= wanted)
            pids = pids or [int(path.read_text()) for path in tmp_path.iterdir()]
        role.kill()
        gone(pids)
        assert leftovers(role.pid) == []
        with contextlib.suppress(AssertionError):
            until(lambda: not any(Path(temporary).iterdir()))
        assert [str(path) for path in Path(temporary).rglob("*")] == []


@pytest.mark.parametrize("where", ["making", "device", "loading"])
def test_a_failure_at_start_tells_that_workers_own_traceback(where):
    with pytest.raises(StartFailed, match=rf"(?s)Traceback.*no weights while {where}") as failure:
        pool(options={"fail": where, "at": 1})
    assert failure.value.rank == 1


@pytest.mark.parametrize(
    ("how", "told"), [("kill", "SIGKILL"), ("exit", "SystemExit: 3")], ids=["kill", "exit"]
)
def test_a_worker_that_ends_while_it_loads_fails_the_start(how, told):
    with pytest.raises(StartFailed, match=told):
        pool(options={"fail": f"loading:{how}"})


@pytest.mark.parametrize("how", ["wait", "sit"])
def test_a_start_ends_at_its_deadline_and_leaves_nobody(how, tmp_path):
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match="worker 1 to be READY"):
        pool(options={"fail": f"loading:{how}", "at": 1, "marks": str(tmp_path)}, start_timeout=0.5)
    assert 0.5 <= time.monotonic() - begin < 8.0
    gone([int(path.read_text()) for path in tmp_path.glob("loading-*")])
