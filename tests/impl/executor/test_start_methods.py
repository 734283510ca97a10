"""Every way to start workers gives the same pool, and nobody holds another's pipe ends (W9)."""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from refengine.executor import Executor, PoolSettings, Zygote, ZygoteFailed, fork_server
from refengine.executor.process import has_ended

from ..roles import Role, descriptors, leftovers, until
from .test_deaths import METHODS, gone
from .workers import pool

LONELY = re.compile(r"(pipe|socket):\[\d+\]|/memfd:refengine-birth")


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_works_and_leaves_nothing(method, monkeypatch):
    monkeypatch.setenv("REFENGINE_TEST", "seen")
    before = descriptors()
    with pool(start=method) as made:
        assert made.state == "READY"
        assert made.collective_rpc("pid", 5.0) == made.pids
        assert made.collective_rpc("environment", 5.0, ("REFENGINE_TEST",)) == ["seen"] * 2
        assert made.collective_rpc("environment", 5.0, ("OMP_NUM_THREADS",)) == ["1"] * 2
        assert made.collective_rpc("title", 5.0) == ["refengine:0", "refengine:1"]
        held = [set(fds.values()) for fds in made.collective_rpc("descriptors", 5.0)]
        inherited = {str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in (0, 1, 2)}
        shared = {name for name in held[0] & held[1] if LONELY.match(name)} - inherited
        assert all(queue_bells_only(name) for name in shared), shared
    gone(made.pids, 0.1)
    assert leftovers(os.getpid()) == []
    del made
    gc.collect()
    if method == "fork":
        after = descriptors()
        assert len(after) <= len(before)


def queue_bells_only(name):
    """Forkserver children share their server's own pipes, which are multiprocessing's."""
    return name.startswith("pipe:")


@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_in_stages(workers):
    with pool(workers, tensor_parallel=1) as made:
        assert made.collective_rpc("pid", 5.0) == made.pids
        assert len(made.pids) == workers


def test_a_forked_worker_holds_no_end_of_the_parents(tmp_path):
    ours, theirs = os.pipe()
    try:
        with pool() as first, pool() as second:
            for made in (first, second):
                for found in made.collective_rpc("descriptors", 5.0):
                    assert str(Path(f"/proc/self/fd/{ours}").readlink()) not in found.values()
            assert first.collective_rpc("pid", 5.0) == first.pids
    finally:
        os.close(ours)
        os.close(theirs)


def test_two_threads_that_make_the_zygote_at_once_both_have_a_pool(monkeypatch):
    """Only one of them is found later; the other one lives for its workers, and ends with them."""
    alone, spawn = ("colorsys",), fork_server._spawn
    zygotes, others = [], []

    def spawn_and_note(*of):
        zygotes.append(spawn(*of))
        return zygotes[-1]

    def spawn_after_another_thread(*of):
        monkeypatch.setattr(fork_server, "_spawn", spawn_and_note)
        other = threading.Thread(target=lambda: others.append(pool(start="zygote", preload=alone)))
        other.start()  # both threads have found that there is none
        other.join(20)
        return spawn_and_note(*of)

    monkeypatch.setattr(fork_server, "_spawn", spawn_after_another_thread)
    with pool(start="zygote", preload=alone) as first, others[0] as second:
        for made in (first, second):
            assert made.collective_rpc("pid", 5.0) == made.pids
    lost, kept = zygotes
    gone([lost], 0.1)
    assert Zygote.shared(alone).pid == kept
    Zygote.shared(alone).close()


def test_one_lock_is_shared_by_all(tmp_path):
    with pool(3, in_flight=4) as made:
        path = str(tmp_path / "inside")
        calls = [made.collective_rpc("locked", None, (path,), non_block=True) for _ in range(3)]
        assert [call.result(9.0) for call in calls] == [[True] * 3] * 3


def test_a_pool_that_is_forgotten_ends_its_workers():
    made = pool()
    pids, ref = made.pids, weakref.ref(made)
    del made
    gc.collect()
    assert ref() is None
    gone(pids, 3.0)


def test_a_pool_ends_with_the_interpreter():
    program = (
        "from impl.executor.workers import pool\n"
        "made = pool(start='zygote')\n"
        "print(*made.pids, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    gone(map(int, done.stdout.split()), 2.0)


def test_output_lines_begin_with_who_wrote_them(capfd):
    with pool(log_prefix=True) as made:
        made.collective_rpc("say", 5.0, ("one\ntwo",))
        pids = made.pids
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == sorted(
        f"(worker {rank} pid {pids[rank]}) {text}" for rank in (0, 1) for text in ("one", "two")
    )


@pytest.mark.parametrize(("workers", "tensor"), [(0, None), (3, 2), (2, 0)])
def test_impossible_shapes_are_refused(workers, tensor):
    with pytest.raises(ValueError, match="cannot be stages"):
        Executor("x:Y", workers, tensor)


def test_model_calls_go_to_the_rank_that_has_the_result():
    with pool(4, tensor_parallel=2) as made:
        assert made.execute_model("step") == (2, "step")
        assert made.execute_model("step", non_block=True).result(5.0) == (2, "step")
        assert made.take_draft_token_ids() == (2, "drafts")
        made.execute_dummy_batch()


def test_with_transfers_every_rank_is_heard():
    with pool(2, transfers=True, in_flight=2) as made:
        first = made.execute_model([["a"], []])
        second = made.execute_model([["b"], ["a", "b"]], non_block=True).result(5.0)
        assert (first.rank, first.finished_sending) == (0, set())
        assert (second.rank, second.finished_sending) == (0, {"a", "b"})


class TestZygote:
    def test_it_serves_pool_after_pool_and_ends_when_told(self):
        with pool(start="zygote") as made:
            first = Zygote.shared(()).pid
            assert made.collective_rpc("pid", 5.0) == made.pids
        with pool(start="zygote"):
            assert Zygote.shared(()).pid == first
        Zygote.shared(()).close()
        gone([first], 0.1)

    def test_a_killed_one_is_replaced_and_its_workers_serve_on(self):
        with pool(start="zygote") as made:
            first = Zygote.shared(())
            os.kill(first.pid, signal.SIGKILL)
            until(lambda: has_ended(first._process))
            assert made.collective_rpc("pid", 5.0) == made.pids
            with pool(start="zygote") as other:
                assert other.collective_rpc("pid", 5.0) == other.pids

    def test_what_it_cannot_import_is_told(self):
        with pytest.raises(ZygoteFailed, match="no_such_module"):
            Executor("x:Y", settings=PoolSettings(preload=("no_such_module",), start_timeout=20.0))

    def test_it_refuses_to_fork_from_a_process_with_threads(self, tmp_path, monkeypatch):
        (tmp_path / "starts_a_thread.py").write_text(
            "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
        )
        monkeypatch.syspath_prepend(tmp_path)
        zygote = Zygote(("starts_a_thread",))
        with pytest.raises(ZygoteFailed, match="1 threads"):
            zygote.warm(20.0)
        zygote.close()

    def test_it_ends_with_its_owner_and_takes_everybody_along(self):
        def owner(say):
            made = pool(1, start="zygote")
            child = made.collective_rpc("child", 5.0, (["setsid", "sleep", "60"],))[0]
            say([Zygote.shared(()).pid, child, *made.pids])
            signal.pause()

        with Role(owner) as role:
            pids = role.hear()
            until(lambda: Path(f"/proc/{pids[1]}/comm").read_text() == "sleep\n")
            role.kill()
            gone(pids)
