"""The parts of a server, told apart by their titles, and by who started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from killpoint.runner.observe.diagnosis import state
from killpoint.systems.server.processes.process_tree import ProcessTree, title_of
from killpoint.systems.server.processes.supervisor import OwnProcess, Supervisor
from killpoint.systems.server.record import kind_of

SERVER = """
import os, pathlib, signal, sys, time
def child(title, after):
    if os.fork() == 0:
        time.sleep(after)
        pathlib.Path("/proc/self/comm").write_text(title)
        signal.pause()
for title in ("x:core", "x:worker", "x:worker", "odd"):
    child(title, 0.3 if title == "x:core" else 0)
signal.pause()
"""
WITHIN = 20.0


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor(OwnProcess()) as supervisor:
        yield supervisor


def _start(supervisor: Supervisor, folder: Path, code: str = SERVER) -> ProcessTree:
    tree = ProcessTree(supervisor.pid, {"core": "^x:core", "worker": "^x:work"})
    argv = [sys.executable, "-c", code]
    tree.begin(supervisor.start(argv, {"GONE": "", "SET": "1"}, folder, folder / "log"))
    return tree


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < end, f"not within {WITHIN:g} s: {what}"
        time.sleep(0.02)


def test_parts_are_known_by_their_titles_once_they_have_them(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    tree = _start(supervisor, tmp_path)
    expected = ["core", "front", "helper", "worker", "worker"]

    def named() -> bool:
        return sorted(kind_of(part) for part in tree.look()[0]) == expected

    _until(named, f"{expected}, not {sorted(tree.look()[0])}")
    assert {"core-0", "worker-0", "worker-1"} <= set(tree.look()[0])
    tree.close()


FORKED = """
import os, pathlib, signal, sys, time
def titled(title):
    pathlib.Path("/proc/self/comm").write_text(title)
if os.fork() == 0:
    titled("x:core")
    if os.fork() == 0:
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        titled("x:worker")
        while os.path.exists(sys.argv[1]):
            time.sleep(0.01)
        titled("odd")
    signal.pause()
signal.pause()
"""
"""A worker that has its core's title, by the fork, until it takes its own."""


def test_a_fork_is_no_part_before_it_has_a_title_of_its_own(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    tree = ProcessTree(supervisor.pid, {"core": "^x:core", "worker": "^x:work"})
    told = tmp_path / "told"
    argv = [sys.executable, "-c", FORKED, str(told)]
    tree.begin(supervisor.start(argv, {}, tmp_path, tmp_path / "log"))
    _until(lambda: {"core-0", "helper-0"} <= set(tree.look()[0]), "a core and a fork of it")
    before = tree.look()[0]
    titles = {title_of(before[part]) for part in ("core-0", "helper-0")}
    assert len(titles) == 1
    told.touch()
    _until(lambda: set(tree.look()[0]) == {"front", "core-0", "worker-0"}, "a core and a worker")
    after = tree.look()[0]
    assert after["core-0"] == before["core-0"]
    assert after["worker-0"] == before["helper-0"]
    # One that takes a title which says nothing is what it was.
    told.unlink()
    comm = Path(f"/proc/{after['worker-0']}/comm")
    _until(lambda: comm.read_text() == "odd\n", "another title")
    assert tree.look()[0] == after
    tree.close()


def test_a_part_that_ends_is_told_with_its_status_and_its_name_is_free_again(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    tree = _start(supervisor, tmp_path)
    _until(lambda: "worker-1" in tree.look()[0], "two workers")
    pid = tree.look()[0]["worker-0"]
    os.kill(pid, signal.SIGKILL)
    ended: list[str] = []

    def gone() -> bool:
        ended.extend(each.part for each in tree.look()[1])
        return bool(ended)

    _until(gone, "an end")
    assert ended == ["worker-0"]
    assert "worker-0" not in tree.look()[0]
    tree.close()


def test_orphans_stay_below_the_launcher_and_end_with_it(tmp_path: Path) -> None:
    with Supervisor(OwnProcess()) as supervisor:
        tree = _start(supervisor, tmp_path)
        _until(lambda: "core-0" in tree.look()[0], "a core")
        os.kill(tree.front, signal.SIGKILL)
        _until(lambda: supervisor.status_of(tree.front) is not None, "the front's end")
        assert supervisor.status_of(tree.front) == signal.SIGKILL
        left = tree.look()[0]
        assert {"core-0", "worker-0", "worker-1"} <= set(left)
        launcher = supervisor.pid
    assert not Path(f"/proc/{launcher}").exists()
    assert not [pid for pid in left.values() if Path(f"/proc/{pid}").exists()]
    tree.close()


def test_a_server_has_its_own_session_signals_and_environment(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GONE", "here")
    code = """
import os, signal
print(os.getsid(0) == os.getpid(), signal.getsignal(signal.SIGINT) is signal.default_int_handler,
      "GONE" in os.environ, os.environ["SET"], os.getcwd())
"""
    tree = _start(supervisor, tmp_path, code)
    _until(lambda: supervisor.status_of(tree.front) is not None, "its end")
    assert (tmp_path / "log").read_text().split() == ["True", "True", "False", "1", str(tmp_path)]
    tree.close()


def test_segments_of_a_server_are_its_own_where_the_machine_permits(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    if supervisor.shared_shm:
        pytest.skip(f"no mounts of its own here: {supervisor.shared_shm}")
    tree = _start(supervisor, tmp_path, 'open("/dev/shm/kp-own-name", "w").close()')
    _until(lambda: supervisor.status_of(tree.front) is not None, "its end")
    assert (supervisor.shm / "kp-own-name").exists()
    assert not Path("/dev/shm/kp-own-name").exists()
    tree.close()


def test_a_launcher_whose_driver_dies_takes_its_server_along(tmp_path: Path) -> None:
    code = f"""
import sys, pathlib, os
from killpoint.systems.server.processes.supervisor import OwnProcess, Supervisor
supervisor = Supervisor(OwnProcess())
folder = pathlib.Path({str(tmp_path)!r})
front = supervisor.start(["sleep", "1000"], {{}}, folder, folder / "log")
print(supervisor.pid, front, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    said = done.stdout.split()
    assert len(said) == 2, done.stderr
    _until(lambda: all(state(int(pid)) in ("", "Z", "X") for pid in said), "the end of both")
