"""What a process shows is read from the kernel, with who shows it and the rights it has."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.history.event import Event
from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.observe import exposure_probe

_CHILD = """
import os, socket, sys
door = socket.create_server(("127.0.0.1", 0))
print(door.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child() -> Iterator[tuple[int, int]]:
    """The pid and the port of a child that listens."""
    command = [sys.executable, "-c", _CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.communicate(b"")


def _seen(tmp_path: Path, kind: str) -> list[Event]:
    log = Log(tmp_path / "director.jsonl", "director")
    exposure_probe.look(log, "writer", os.getpid(), tmp_path)
    exposure_probe.look_at_files(log, tmp_path)
    log.close()
    return list(History.read(tmp_path).of(kind))


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_a_listener_is_found_at_its_address(family: int, host: str) -> None:
    with socket.create_server((host, 0), family=family) as door:
        port = door.getsockname()[1]
        found = [each for each in exposure_probe.listeners(os.getpid()) if each.port == port]
    assert [(each.address, each.pid) for each in found] == [(host, os.getpid())]


def test_a_connection_is_no_listener() -> None:
    door = socket.create_server(("127.0.0.1", 0))
    with door, socket.create_connection(door.getsockname()) as line:
        ports = {each.port for each in exposure_probe.listeners(os.getpid())}
        assert line.getsockname()[1] not in ports


def test_a_listener_of_a_child_is_its_own(child: tuple[int, int]) -> None:
    pid, port = child
    found = [each for each in exposure_probe.listeners(os.getpid()) if each.port == port]
    assert [each.pid for each in found] == [pid]
    assert pid in exposure_probe.family(os.getpid())


def test_a_socket_path_comes_with_its_mode_and_its_folders(tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(place / "door"))
        (place / "door").chmod(0o640)
        told = [e for e in _seen(tmp_path, "socket-path") if e.text("path").endswith("door")]
    assert [event.number("mode") for event in told] == [0o640]
    assert told[0].data["folders"] == [[str(place), 0o700]]  # what is above is not the target's
    assert told[0].number("owner") == os.getuid()


def test_an_unlinked_path_is_nobodys_and_an_abstract_one_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone, socket.socket(socket.AF_UNIX) as abstract:
        gone.bind(str(tmp_path / "gone"))
        (tmp_path / "gone").unlink()
        name = f"kp-lookout-{os.getpid()}"
        abstract.bind("\0" + name)
        assert not [e for e in _seen(tmp_path, "socket-path") if "gone" in e.text("path")]
        assert f"@{name}" in [e.text("path") for e in _seen(tmp_path, "abstract-socket")]


def test_an_open_segment_is_told_with_its_rights(tmp_path: Path) -> None:
    segment = Path(f"/dev/shm/kp-lookout-{os.getpid()}")
    fd = os.open(segment, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.fchmod(fd, 0o644)
        told = [e for e in _seen(tmp_path, "segment-rights") if e.text("name") == segment.name]
    finally:
        os.close(fd)
        segment.unlink()
    assert [event.number("mode") for event in told] == [0o644]


def test_temporary_files_and_folders_are_told(tmp_path: Path) -> None:
    (tmp_path / "box").mkdir(mode=0o755)
    (tmp_path / "box" / "note").write_text("x")
    (tmp_path / "box" / "note").chmod(0o604)
    told = {Path(e.text("path")).name: e for e in _seen(tmp_path, "file-rights")}
    assert told["note"].number("mode") == 0o604
    assert told["note"].data["directory"] is False
    assert told["box"].data["directory"] is True
