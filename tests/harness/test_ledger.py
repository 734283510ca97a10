"""What a play leaves behind is found by name, and only that is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
    assert "temporary file deep/er" in left.words()


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
