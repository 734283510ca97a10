"""How a worker comes to be, from its parent to its exit status (W9)."""

import multiprocessing
import os
import pickle
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.base.fds import Fd
from refengine.executor import (
    PoolSettings,
    start_methods,
    worker_init,
    workers,
)
from refengine.executor.process import Link, Outcome, link_pair, run_and_exit
from refengine.executor.settings import WorkerSpec
from refengine.executor.worker_init import WorkerInit
from refengine.executor.workers import PoolShape, WorkerHandle, WorkerSet

from ...roles import Role


@pytest.fixture
def line():
    ends = link_pair()
    yield ends
    for end in ends:
        end.close()


class TestRunAndExit:
    @pytest.mark.parametrize(
        ("what", "status"),
        [(7, 7), (SystemExit(), 0), (ValueError("x"), 1)],
    )
    def test_its_status_is_that_of_the_work(self, what, status):
        def child(say: Any) -> None:
            def work() -> int:
                if isinstance(what, BaseException):
                    raise what
                return what

            multiprocessing.util.Finalize(None, lambda: say("tidied up"), exitpriority=1)
            sys.excepthook = lambda kind, *_: say(kind.__name__)
            sys.stdout = SimpleNamespace(flush=lambda: say("flushed"))
            run_and_exit(work)

        with Role(child) as role:
            said = role.finish()
            assert os.waitstatus_to_exitcode(role.wait()) == status
        raised = type(what).__name__
        told = [raised] if raised == "ValueError" else []
        assert said == [*told, "tidied up", "flushed"]


class TestWorkerInit:
    def about(self, **more: Any) -> WorkerInit:
        given: dict[str, Any] = {
            "rank": 0, "world_size": 1, "tensor_parallel": 1, "device": "cpu", "environ": {},
            "folder": "", "path": [], "temporary": "/t", "main": {},
            "worker": pickle.dumps(WorkerSpec("x:Y", {})),
            "output_thread": False, "max_chunk_bytes": 1, "max_chunks": 1, "log_prefix": False,
        }  # fmt: skip
        return WorkerInit(**given | more)

    def test_a_worker_takes_over_its_parents_environment(self, tmp_path):
        about = self.about(environ={"ONLY": "this"}, folder=str(tmp_path), path=["/some/where"])
        elsewhere = self.about(environ={"ONLY": "this"})

        def child(say: Any) -> None:
            spec = about.apply()
            say([spec.worker, dict(os.environ), str(Path.cwd()), sys.path])
            elsewhere.apply()
            say(str(Path.cwd()))
            worker_init.spawn.prepare = lambda main: say(["prepared", main])
            self.about(main={"init_main_from_name": "x"}).apply()

        with Role(child) as role:
            spec = ["x:Y", {"ONLY": "this"}, str(tmp_path), ["/some/where"]]
            assert role.finish() == [
                spec, str(tmp_path), ["prepared", {"init_main_from_name": "x"}],
            ]  # fmt: skip

    def test_a_worker_is_told_where_temporary_files_go_and_tries_no_folder(self, tmp_path):
        about = self.about(temporary=str(tmp_path))
        unwritten = self.about(**worker_init.parent_environment())

        def child(say: Any) -> None:
            def look() -> str:
                raise AssertionError("what it tries to write may be left there")

            tempfile.tempdir, tempfile._get_default_tempdir = None, look
            for each in (about, unwritten):
                each.apply()
                say(tempfile.gettempdir())

        with Role(child) as role:
            assert role.finish() == [str(tmp_path), tempfile.gettempdir()]

    def test_one_openmp_thread_unless_somebody_knows_better(self):
        assert worker_init.with_thread_limit({}) == {"OMP_NUM_THREADS": "1"}
        assert worker_init.with_thread_limit({"OMP_NUM_THREADS": "4"})["OMP_NUM_THREADS"] == "4"

    def test_a_class_of_the_main_program_needs_that(self, monkeypatch):
        assert worker_init.main_program("some.module:Class") == {}
        assert worker_init.main_program(WorkerInit) == {}
        data = {"init_main_from_path": "/x.py", "sys_path": [], "name": "worker"}
        asked: list[str] = []
        monkeypatch.setattr(
            worker_init.spawn, "get_preparation_data", lambda name: asked.append(name) or data
        )
        assert worker_init.main_program("__main__:Class") == {"init_main_from_path": "/x.py"}
        assert asked == ["worker"]


class TestWorkerSet:
    @pytest.fixture
    def brought(self, monkeypatch):
        """Members that are born at once; what each heard."""
        heard: list[Any] = []

        def start(theirs: Link, name: str) -> Any:
            (word, fds) = theirs.receive()
            with os.fdopen(fds[0], "rb") as file:
                file.seek(0)
                heard.append((name, word, pickle.load(file), fds[2:]))
            for fd in fds[1:]:
                os.close(fd)
            reading, writing = os.pipe()
            os.close(writing)
            return SimpleNamespace(pid=4000 + len(heard), pidfd=Fd(reading), close=lambda: None)

        monkeypatch.setattr(workers, "start_method", lambda settings: start)
        monkeypatch.setattr(
            workers, "send_signal_at_hangup", lambda fd, pid: heard.append((fd, pid))
        )
        return heard

    def test_each_is_told_everything_about_itself(self, brought):
        made = WorkerSet(PoolShape(2, 1, "cuda"))
        settings = PoolSettings(
            output_thread=True, max_chunk_bytes=4096, max_chunks=3, log_prefix=False
        )
        made.start(WorkerSpec("m:C", {"a": 1}), settings)
        names = [entry for entry in brought if len(entry) == 4]
        assert [(name, word, about.rank) for name, word, about, _ in names] == [
            ("worker-0", "born", 0), ("worker-1", "born", 1),
        ]  # fmt: skip
        about = names[1][2]
        assert (about.world_size, about.tensor_parallel, about.device) == (2, 1, "cuda")
        assert (about.output_thread, about.max_chunk_bytes, about.max_chunks) == (True, 4096, 3)
        assert not about.log_prefix
        assert about.main == {}
        assert about.path == sys.path
        assert pickle.loads(about.worker) == WorkerSpec("m:C", {"a": 1})
        assert len(names[0][3]) == 2
        assert made.pids() == [4001, 4003]
        owners = [entry[1] for entry in brought if len(entry) == 2]
        assert owners == made.pids()
        for handle in made.handles:
            assert handle.child_link.fileno() == handle.death_pipe.fileno() == -1
            assert handle.death_pipe_writer.fileno() >= 0
            assert (handle.replies_handle, handle.start_error, handle.exit_reason) == (None, "", "")
        ends = [m.link for m in made.handles] + [m.death_pipe_writer for m in made.handles]
        made.close()
        assert [end.fileno() for end in ends] == [-1] * 4
        assert made._progress_fd.fileno() == made._store.fileno() == -1

    def test_one_that_could_not_be_started_keeps_nothing(self):
        handle = WorkerHandle(3)
        assert (handle.process, handle.pid) == (None, 0)

        def fail(theirs: Link, name: str) -> Any:
            raise OSError("no room")

        about: Any = "about"
        with pytest.raises(OSError, match="no room"):
            handle.start(fail, about, (1, 2))
        assert handle.child_link.fileno() == handle.death_pipe.fileno() == -1
        handle.close()
        assert handle.link.fileno() == handle.death_pipe_writer.fileno() == -1

    def test_in_a_fork_all_ends_are_blank(self):
        made = WorkerSet(PoolShape(1, 1, "cpu"))
        made.handles.append(WorkerHandle(0))

        def child(say: Any) -> None:
            handle = made.handles[0]
            ends = (handle.link, handle.death_pipe_writer, made._progress_fd, made._store)
            say([str(Path(f"/proc/self/fd/{end.fileno()}").readlink()) for end in ends])

        with Role(child) as role:
            assert role.hear() == ["/dev/null"] * 4
        made.close()


class TestStartMethods:
    def test_a_process_of_multiprocessings(self, line):
        context: Any = SimpleNamespace(Process=Started)
        made = start_methods._by_multiprocessing(context, line[1], "worker-1")
        process: Any = made
        given = process._process.given
        assert (given["name"], given["target"]) == ("worker-1", start_methods._run_new)
        assert given["args"][0]._link is line[1]
        assert made.pid == os.getpid()
        assert made.outcome(0.0) is None
        process.pidfd.close()
        process._process.codes = [None, -9]
        assert made.outcome(0.25) == Outcome(signal=9)
        assert process._process.joined == [0.25]
        process._process.codes = [3]
        assert made.outcome(0.25) == Outcome(status=3)
        process._process.codes = [0]
        assert made.outcome(0.25) == Outcome(status=0)
        process._process.codes = [None]
        assert made.outcome(0.25) is None
        made.close()

    def test_one_that_is_gone_already_has_ended(self, monkeypatch):
        def gone(pid: int) -> int:
            raise ProcessLookupError

        monkeypatch.setattr(start_methods.os, "pidfd_open", gone)
        made = start_methods._MultiprocessingChild(SimpleNamespace(pid=5, exitcode=1))
        assert made.pidfd.fileno() == -1
        assert made.outcome(0.0) == Outcome(status=1)

    def test_a_link_on_its_way_is_rebuilt_for_the_new_process_alone(self, line):
        fd = os.dup(line[1].fileno())
        os.set_inheritable(fd, True)
        made = start_methods._rebuild_link(SimpleNamespace(detach=lambda: fd))
        assert made.fileno() == fd
        assert not os.get_inheritable(fd)
        line[0].send("hello")
        assert made.receive()[0] == "hello"
        made.close()

    def test_a_born_workers_status_is_its_processs(self, line, monkeypatch):
        monkeypatch.setattr(start_methods, "worker_main", lambda link: 5)
        with pytest.raises(SystemExit) as end:
            start_methods._run_new(line[0])
        assert end.value.code == 5


class Started:
    """A process of multiprocessing's, as far as it is used."""

    def __init__(self, **given: Any) -> None:
        self.given, self.pid, self.joined = given, 0, list[float]()
        self.codes: list[int | None] = [None]

    def start(self) -> None:
        self.pid = os.getpid()

    @property
    def exitcode(self) -> int | None:
        return self.codes[0] if len(self.codes) == 1 else self.codes.pop(0)

    def join(self, seconds: float) -> None:
        self.joined.append(seconds)
