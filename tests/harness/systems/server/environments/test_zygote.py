"""The zygote: servers that are forked find what a program finds; a connection owns them."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
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
        self._lines = self.socket.makefile("rb")
        try:
            self.socket.connect(str(path))
            self.ready = self.hear()
        except BaseException:
            self.close()
            raise

    def hear(self) -> dict[str, Any]:
        return json.loads(self._lines.readline())

    def start(self, folder: Path, *argv: str, umask: int | None = None) -> int:
        self.socket.sendall(self.order(folder, *argv, umask=umask))
        return int(self.hear()["started"])

    def order(self, folder: Path, *argv: str, umask: int | None = None) -> bytes:
        env = {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}
        line = [str(folder / "an-engine"), str(folder / "engine"), *argv]
        order = {"argv": line, "env": env, "cwd": str(folder), "log": str(folder / "log")}
        order |= {"umask": umask}
        return json.dumps(order).encode() + b"\n"

    def lines(self) -> bytes:
        """All that is said to the end."""
        return self._lines.read()

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@contextlib.contextmanager
def _zygote(folder: Path, **more: str) -> Generator[tuple[subprocess.Popen[bytes], Path]]:
    path = folder / "socket"
    command = [sys.executable, str(ZYGOTE), str(path), str(HERE / "stand_in.py")]
    process = subprocess.Popen(
        command, env=os.environ | more, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        _until(lambda: path.exists() or process.poll() is not None, "the zygote to listen")
        yield process, path
    finally:
        process.kill()
        process.wait(WITHIN)
        assert process.stdin
        assert process.stderr
        process.stdin.close()
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
    return _state(pid) not in ("", "Z", "X")


def _state(pid: int) -> str:
    """As /proc has it; nothing once it was reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _untaken(play: Play) -> int:
    """Bytes that the launcher has not read yet."""
    left = array.array("i", [0])
    fcntl.ioctl(play.socket.fileno(), termios.TIOCOUTQ, left)
    return left[0]


def _umask(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Umask")), 8)


def _said(folder: Path) -> dict[str, Any]:
    log = folder / "log"
    _until(lambda: log.exists() and b"\n" in log.read_bytes(), "the server to say what it has")
    return json.loads(log.read_text().splitlines()[0])


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
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "an-engine"
    default = dict.fromkeys(("SIGTERM", "SIGHUP", "SIGCHLD"), "SIG_DFL")
    its_own = {"SIGINT": "default_int_handler", "SIGPIPE": "SIG_IGN"}  # the interpreter's
    assert said["signals"] == default | its_own
    assert said["wakeup"] == -1
    assert said["path"][0] == str(tmp_path)
    assert str(ZYGOTE.parent) not in said["path"]
    assert said["tempdir"] == str(tmp_path)
    assert said["standard"] == ["/dev/null", str(tmp_path / "log"), str(tmp_path / "log")]
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    assert said["fds"][:3] == [0, 1, 2]
    assert len(said["fds"]) == 4  # and the one by which they are listed
    parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    assert int(parent) == play.ready["ready"]


def test_its_log_goes_on_where_another_one_ended(play: Play, tmp_path: Path) -> None:
    for _ in range(2):
        play.start(tmp_path, "exit", "0")
        play.hear()
    assert len((tmp_path / "log").read_text().splitlines()) == 2


def test_an_order_may_come_in_pieces_and_two_at_once(play: Play, tmp_path: Path) -> None:
    order = play.order(tmp_path, "wait")
    play.socket.sendall(order[:40])
    _until(lambda: not _untaken(play), "the launcher to take a piece")
    play.socket.sendall(order[40:] + order)
    pids = {play.hear()["started"] for _ in range(2)}
    log = tmp_path / "log"
    _until(lambda: log.exists() and log.read_bytes().count(b"\n") == 2, "both servers to speak")
    assert {json.loads(line)["pid"] for line in log.read_text().splitlines()} == pids


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_for_a_terminal_s_group_are_not_for_a_launcher(
    number: signal.Signals, play: Play, tmp_path: Path
) -> None:
    launcher = play.ready["ready"]
    assert os.getsid(launcher) == launcher
    os.kill(launcher, number)
    pid = play.start(tmp_path, "wait")
    _said(tmp_path)
    assert _exists(pid)


def test_two_ends_at_once_are_both_told(play: Play, tmp_path: Path) -> None:
    pids = {play.start(tmp_path, "wait") for _ in range(2)}
    launcher = play.ready["ready"]
    os.kill(launcher, signal.SIGSTOP)
    _until(lambda: _state(launcher) == "T", "the launcher to be stopped")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        _until(lambda pid=pid: _state(pid) == "Z", "its end")
    os.kill(launcher, signal.SIGCONT)
    assert {play.hear()["ended"] for _ in pids} == pids


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


@pytest.mark.parametrize(("argv", "status"), [(["exit", "3"], 3), (["raise"], 1), (["write"], 5)])
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


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("thread", b"the engine's import started 1 threads"),
        ("cuda", b"the engine's import initialised CUDA"),
    ],
)
def test_an_import_that_cannot_be_forked_is_refused(does: str, told: bytes, tmp_path: Path) -> None:
    with _zygote(tmp_path, STAND_IN=does) as (process, path):
        assert process.wait(WITHIN) == 1
        assert process.stderr
        assert told in process.stderr.read()
        assert not path.exists()


def test_a_launcher_that_is_killed_is_seen_by_its_driver_and_leaves_nothing(tmp_path: Path) -> None:
    with _zygote(tmp_path) as (_, path):
        play = Play(path)
        os.kill(play.ready["ready"], signal.SIGKILL)
        assert play.lines() == b""
        _until(lambda: not _state(play.ready["ready"]), "the launcher to be reaped")
        play.close()
        again = Play(path)
        again.close()
        _until(lambda: not _state(again.ready["ready"]), "the next one to be reaped")


@pytest.mark.parametrize("does", ["", "interrupt"], ids=["later", "once-it-can-be-found"])
def test_an_interrupt_at_the_terminal_does_not_end_it(does: str, tmp_path: Path) -> None:
    with _zygote(tmp_path, STAND_IN=does) as (process, path):
        process.send_signal(signal.SIGINT)
        Play(path).close()
        assert process.poll() is None


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
