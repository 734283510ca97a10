"""What a server runs out of is its own: a tmpfs of its play, its descriptors."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.systems.server.processes import exhaustion
from killpoint.systems.server.processes.exhaustion import Exhausted
from killpoint.systems.server.processes.supervisor import OwnProcess, Supervisor


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor(OwnProcess()) as supervisor:
        if supervisor.shared_shm:
            pytest.skip(f"no mounts of one's own here: {supervisor.shared_shm}")
        yield supervisor


def _said_by(supervisor: Supervisor, folder: Path, code: str) -> str:
    """What a process below the launcher printed, or the error that it ended with."""
    log = folder / "said"
    pid = supervisor.start([sys.executable, "-c", code], {}, folder, log)
    end = time.monotonic() + 30
    while supervisor.status_of(pid) is None:
        assert time.monotonic() < end, "the test waited 30 s for the process below the launcher"
        time.sleep(0.02)
    return log.read_text()


WRITE = """
import sys
try:
    with open("{path}", "wb", buffering=0) as file:
        print(file.write(bytes(4096)))
except OSError as error:
    print(error.strerror)
"""


def test_a_full_dev_shm_takes_no_page_and_the_machines_own_does(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    shm = Path("/dev/shm")
    assert _said_by(supervisor, tmp_path, WRITE.format(path="/dev/shm/a")) == "4096\n"
    (tmp_path / "said").unlink()
    had = os.statvfs(shm)
    assert not exhaustion.is_full(supervisor.pid, shm)
    exhaustion.fill(supervisor.pid, shm)
    assert exhaustion.is_full(supervisor.pid, shm)
    said = _said_by(supervisor, tmp_path, WRITE.format(path="/dev/shm/b"))
    assert said == "No space left on device\n"
    assert os.statvfs(shm).f_blocks == had.f_blocks


def test_an_empty_tmpfs_is_filled_too(supervisor: Supervisor) -> None:
    exhaustion.fill(supervisor.pid, Path("/dev/shm"))
    assert exhaustion.is_full(supervisor.pid, Path("/dev/shm"))


def test_a_temporary_folder_of_its_own_is_filled_and_nobody_else_sees_it(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    exhaustion.own_temporary(supervisor.pid, folder)
    assert _said_by(supervisor, tmp_path, WRITE.format(path=folder / "a")) == "4096\n"
    assert not list(folder.iterdir())
    exhaustion.fill(supervisor.pid, folder)
    room = os.statvfs(f"/proc/{supervisor.pid}/root{folder}")
    assert room.f_blocks * room.f_frsize <= 1 << 16, "memory was filled, and not the size lowered"
    (tmp_path / "said").unlink()
    said = _said_by(supervisor, tmp_path, WRITE.format(path=folder / "b"))
    assert said == "No space left on device\n"


def test_what_is_no_mount_of_the_plays_own_is_not_filled(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    with pytest.raises(Exhausted, match="is no tmpfs of the play's own"):
        exhaustion.fill(supervisor.pid, tmp_path)
    with pytest.raises(Exhausted, match="not permitted here"):
        exhaustion.fill(os.getpid(), Path("/dev/shm"))


OPENS = """
import os, sys
print("up", flush=True)
sys.stdin.readline()
count = 0
try:
    while True:
        os.open("/dev/null", os.O_RDONLY)
        count += 1
except OSError as error:
    print(count, error.strerror, flush=True)
"""


@pytest.mark.parametrize("spare", [0, 3])
def test_a_process_has_so_many_descriptors_left(spare: int) -> None:
    command = [sys.executable, "-c", OPENS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        assert exhaustion.starved(process.pid, spare)
        said, _ = process.communicate("go\n", timeout=20)
    assert said == f"{spare} Too many open files\n"
    assert not exhaustion.starved(process.pid, 0)
