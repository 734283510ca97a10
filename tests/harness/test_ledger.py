"""What a play leaves behind is found by name, and only that is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from synthetic import Tape

from killpoint.ledger import Ledger, look, owned_names, remove


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "t"
    made.mkdir()
    return made


def test_a_play_owns_what_it_created_or_mapped() -> None:
    tape = Tape().tell("writer", "segment", act="create", name="a", pid=1)
    tape.tell("writer", "segment", act="unlink", name="z", pid=1)
    tape.tell("director", "mapped", target="writer", names="b c")
    assert owned_names(tape.history()) == {"a", "b", "c"}


def test_nothing_left_is_an_empty_ledger(folder: Path) -> None:
    left = look({"no-such-segment"}, folder, [])
    assert left.empty()
    assert left.words() == "nothing"


def test_files_sockets_and_empty_folders_are_found_once(folder: Path) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "file").write_text("x")
    os.mkfifo(folder / "deep" / "pipe")
    left = look([], folder, [])
    assert left.files == ["deep/er", "deep/pipe", "file"]
    assert (
        left.words() == "1 empty directory (deep/er), 1 FIFO (deep/pipe), 1 temporary file (file)"
    )
    assert left.lines()[0] == "left: empty directory deep/er"


def test_what_is_drawn_anew_each_time_is_in_no_words() -> None:
    drawn = ["c07d8d9f-38f1-4a53-9f3e-0a1b2c3d4e5f", "5f0e21b7-38f1-4a53-9f3e-0a1b2c3d4e5f"]
    left = Ledger(files=drawn, segments=["psm_8e582983"], types=dict.fromkeys(drawn, "unix socket"))
    assert left.words() == "1 shared-memory segment (psm_…), 2 unix sockets"
    assert all(name in "\n".join(left.lines()) for name in (*drawn, "psm_8e582983"))


@pytest.mark.parametrize("drawn", ["cvk3dyrn", "abcdefgh", "_8xqplw0"])
def test_what_tempfile_draws_is_in_no_words(drawn: str) -> None:
    left = Ledger(files=[f"coordinator-{drawn}/reports", f"tmp{drawn}", "coordinator/starts"])
    told = "1 temporary file (coordinator-…/reports), 1 temporary file (tmp…), 1 temporary file"
    assert left.words() == f"{told} (coordinator/starts)"


def test_only_what_is_beyond_the_usual_is_told_as_such() -> None:
    left = Ledger(files=["a", "b", "c"], segments=["psm_1"], usual={"temporary file": 2})
    assert left.beyond_usual() == ["1 shared-memory segment", "1 temporary file"]
    assert Ledger(files=["a"], usual={"temporary file": 1}).beyond_usual() == []


def test_only_owned_segments_are_found_and_removed(folder: Path) -> None:
    mine, others = (Path(f"/dev/shm/kp-test-{os.getpid()}-{n}") for n in ("mine", "others"))
    try:
        mine.write_text("x")
        others.write_text("x")
        left = look({mine.name}, folder, [])
        assert left.segments == [mine.name]
        remove(left, folder)
        assert not mine.exists()
        assert others.exists()
    finally:
        mine.unlink(missing_ok=True)
        others.unlink(missing_ok=True)


def test_processes_are_found_a_zombie_too_and_ended(folder: Path) -> None:
    alive = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        left = look([], folder, [alive.pid, zombie.pid])
        assert left.processes[1] == f"{zombie.pid} zombie"
        assert left.processes[0].startswith(f"{alive.pid} ")
        remove(left, folder)
        assert alive.wait(10) == -9
        assert not folder.exists()
    finally:
        alive.kill()
        alive.communicate(timeout=10)
        zombie.wait(10)


def test_a_process_that_ended_meanwhile_is_no_leftover(folder: Path) -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(30)
    assert look([], folder, [done.pid]).empty()
    remove(Ledger(processes=[f"{done.pid} x"]), folder)
    assert not folder.exists()


def test_a_command_that_is_no_text_is_told_all_the_same(folder: Path) -> None:
    odd = subprocess.Popen([b"cat", b"-", b"\xff\xfe"], stdin=subprocess.PIPE)
    try:
        (line,) = look([], folder, [odd.pid]).processes
        assert line.startswith(f"{odd.pid} ")
    finally:
        odd.kill()
        odd.communicate(timeout=10)


def test_a_process_is_told_without_the_folder_of_its_program(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print(flush=True);input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (told,) = look([], tmp_path, [process.pid]).processes
        process.communicate(b"\n", timeout=60)
    assert told == f"{process.pid} {Path(sys.executable).name} -c print(flush=True);input()"


def test_a_folder_that_goes_while_it_is_looked_at_is_no_leftover(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def look_late(path: str | Path) -> Any:
        if Path(path).name == "going":
            Path(path).rmdir()
        return scandir(path)

    (folder / "going").mkdir()
    (folder / "file").write_text("x")
    monkeypatch.setattr(os, "scandir", look_late)
    assert look([], folder, []).files == ["file"]


def test_a_link_to_a_folder_is_a_file_and_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    (folder / "link").symlink_to(tmp_path / "other")
    assert look([], folder, []).files == ["link"]
