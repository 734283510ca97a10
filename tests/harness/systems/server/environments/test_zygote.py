"""The zygote: servers that are forked find what a program finds; a connection owns them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from killpoint.systems.server.environments import profiles

HERE = Path(__file__).parent
ZYGOTE = Path(profiles.__file__).with_name("zygote.py")
WITHIN = 60.0


class Play:
    """A connection to a zygote, as the driver of a play has it."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WITHIN)
        self.socket.connect(str(path))
        self._lines = self.socket.makefile("rb")
        self.ready = self.hear()

    def hear(self) -> dict[str, Any]:
        return json.loads(self._lines.readline())

    def start(self, folder: Path, *argv: str, umask: int | None = None) -> int:
        env = {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}
        line = [sys.executable, str(folder / "engine"), *argv]
        order = {"argv": line, "env": env, "cwd": str(folder), "log": str(folder / "log")}
        order |= {"umask": umask}
        self.socket.sendall(json.dumps(order).encode() + b"\n")
        return int(self.hear()["started"])

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@contextlib.contextmanager
def _zygote(folder: Path, **more: str) -> Generator[tuple[subprocess.Popen[bytes], Path]]:
    path = folder / "socket"
    command = [sys.executable, str(ZYGOTE), str(path), str(HERE / "stand_in.py")]
    process = subprocess.Popen(command, env=os.environ | more, stderr=subprocess.PIPE)
    try:
        _until(lambda: path.exists() or process.poll() is not None, "the zygote to listen")
        yield process, path
    finally:
        process.kill()
        process.wait(WITHIN)
        assert process.stderr
        process.stderr.close()


@pytest.fixture
def play(tmp_path: Path) -> Generator[Play]:
    with _zygote(tmp_path) as (_, path):
        made = Play(path)
        yield made
        made.close()
        _until(lambda: not _exists(made.ready["ready"]), "the launcher to leave")


def _until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN
    while not true():
        assert time.monotonic() < end, f"waited {WITHIN:.0f} s for {what}"
        select.select([], [], [], 0.02)


def _exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _umask(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Umask")), 8)


def _said(folder: Path) -> dict[str, Any]:
    (folder / "log").touch()
    _until(lambda: b"\n" in (folder / "log").read_bytes(), "the server to say what it has")
    return json.loads((folder / "log").read_text().splitlines()[0])


def test_a_forked_server_finds_what_a_program_finds(play: Play, tmp_path: Path) -> None:
    pid = play.start(tmp_path, "wait", "--port", "1")
    said = _said(tmp_path)
    assert (said["pid"], said["session"]) == (pid, pid)
    assert said["argv"] == [str(tmp_path / "engine"), "wait", "--port", "1"]
    assert {key: said["env"][key] for key in said["env"] if key != "LC_CTYPE"} == {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(tmp_path),
    }
    assert said["cwd"] == str(tmp_path)
    assert said["imported"]
    assert Path(f"/proc/{pid}/comm").read_text().strip() == Path(sys.executable).name
    assert said["usual"]
    assert said["fds"][:3] == [0, 1, 2]
    assert len(said["fds"]) == 4  # and the one by which they are listed
    assert os.pidfd_open(pid) > 0
    parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    assert int(parent) == play.ready["ready"]


def test_a_play_has_a_dev_shm_of_its_own_where_it_may(play: Play, tmp_path: Path) -> None:
    if play.ready["shm"]:
        pytest.skip(f"this machine permits no mounts: {play.ready['shm']}")
    play.start(tmp_path, "wait")
    assert _said(tmp_path)["shm"] == ["stand-in"]
    assert not Path("/dev/shm/stand-in").exists()
    seen = Path(f"/proc/{play.ready['ready']}/root/dev/shm/stand-in")
    assert seen.read_text() == "here"


@pytest.mark.parametrize("umask", [None, 0, 0o037])
def test_it_has_the_umask_that_its_play_asks_for(
    play: Play, tmp_path: Path, umask: int | None
) -> None:
    pid = play.start(tmp_path, "wait", umask=umask)
    _said(tmp_path)
    own, its = (_umask(each) for each in (os.getpid(), pid))
    assert its == (own if umask is None else umask)


@pytest.mark.parametrize(("argv", "status"), [(["exit", "3"], 3), (["raise"], 1)])
def test_its_end_is_told(play: Play, tmp_path: Path, argv: list[str], status: int) -> None:
    pid = play.start(tmp_path, *argv)
    said = play.hear()
    assert said["ended"] == pid
    assert os.waitstatus_to_exitcode(said["status"]) == status
    log = (tmp_path / "log").read_text()
    assert ("ValueError: a server's own error" in log) == (argv == ["raise"])
    assert "another exception" not in log


def test_a_signal_that_killed_it_is_told(play: Play, tmp_path: Path) -> None:
    pid = play.start(tmp_path, "wait")
    _said(tmp_path)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(play.hear()["status"]) == -signal.SIGTERM


def test_nothing_of_a_play_survives_its_connection(tmp_path: Path) -> None:
    with _zygote(tmp_path) as (_, path):
        play = Play(path)
        pid = play.start(tmp_path, "orphan")
        _said(tmp_path)
        children = Path(f"/proc/{pid}/task/{pid}/children")
        _until(lambda: bool(children.read_text().split()), "the server to fork")
        child = int(children.read_text().split()[0])
        os.kill(pid, signal.SIGKILL)  # its child, in a session of its own, is the launcher's now
        assert play.hear()["ended"] == pid
        assert _exists(child)
        play.close()
        _until(lambda: not _exists(child), "the orphan to be killed")
        _until(lambda: not _exists(play.ready["ready"]), "the launcher to leave")


def test_two_plays_at_a_time_are_apart(tmp_path: Path) -> None:
    with _zygote(tmp_path) as (_, path):
        one, two = Play(path), Play(path)
        folders = [tmp_path / "one", tmp_path / "two"]
        for folder in folders:
            folder.mkdir()
        pids = [one.start(folders[0], "wait"), two.start(folders[1], "wait")]
        assert [_said(folder)["pid"] for folder in folders] == pids
        one.close()
        _until(lambda: not _exists(pids[0]), "the first play's server to be killed")
        assert _exists(pids[1])
        two.close()
        _until(lambda: not _exists(pids[1]), "the second's too")


def test_an_import_that_starts_a_thread_is_refused(tmp_path: Path) -> None:
    with _zygote(tmp_path, STAND_IN="thread") as (process, path):
        assert process.wait(WITHIN) == 1
        assert process.stderr
        assert b"the engine's import started 1 threads" in process.stderr.read()
        assert not path.exists()


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    command = [sys.executable, str(ZYGOTE), str(path), str(HERE / "stand_in.py")]
    program = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); print(p.pid); input()"
    starter = subprocess.Popen(
        [sys.executable, "-uc", program, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with starter:
        assert starter.stdout
        pid = int(starter.stdout.readline())
        _until(path.exists, "the zygote to listen")
        starter.kill()
    _until(lambda: not _exists(pid), "the zygote to leave")
    assert not path.exists()
