"""A log loses nothing that was written, whoever dies right afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from killpoint.history.log import Log
from killpoint.history.record import History

_WRITER = """
import os, signal, sys
from pathlib import Path
from killpoint.history.log import Log
log = Log(Path(sys.argv[1]), "writer")
for seq in range(500):
    log.write("send", seq=seq, digest="x" * 40)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_killed_right_after_its_last_write_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "writer.jsonl"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _WRITER, str(path)], env=environment, timeout=30, check=False
    )
    assert done.returncode == -signal.SIGKILL
    events = History.read(tmp_path).events
    assert [event.number("seq") for event in events] == list(range(500))


def test_a_forks_events_and_its_parents_stay_whole_lines(tmp_path: Path) -> None:
    log = Log(tmp_path / "writer.jsonl", "writer")
    pid = os.fork()
    for turn in range(300):
        log.write("send", seq=turn, by="child" if pid == 0 else "parent")
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    log.close()
    events = History.read(tmp_path).events
    for who in ("child", "parent"):
        assert [e.number("seq") for e in events if e.text("by") == who] == list(range(300))


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    log = Log(tmp_path / "writer.jsonl", "writer")
    log.write("send", seq=0)
    log.write("send", seq=1)
    log.close()
    path = tmp_path / "writer.jsonl"
    for cut in range(1, 30):
        whole = path.read_bytes()
        (tmp_path / "torn").mkdir(exist_ok=True)
        (tmp_path / "torn" / "writer.jsonl").write_bytes(whole[:-cut])
        events = History.read(tmp_path / "torn").events
        assert [event.number("seq") for event in events] == [0]


def test_a_line_torn_by_a_death_before_a_second_start_is_dropped(tmp_path: Path) -> None:
    log = Log(tmp_path / "writer.jsonl", "writer")
    log.write("send", seq=0)
    with (tmp_path / "writer.jsonl").open("ab") as torn:
        torn.write(b'{"t":1,"role":"wri')
    log.write("send", seq=1)
    log.write("send", seq=2)
    log.close()
    numbers = [event.number("seq") for event in History.read(tmp_path).events]
    assert numbers == [0, 1, 2]


def test_what_no_death_can_have_left_is_passed_over_and_named(tmp_path: Path) -> None:
    path = tmp_path / "writer.jsonl"
    log = Log(path, "writer")
    log.write("send", seq=0)
    with path.open("ab") as odd:
        odd.write(b"odd\n\xff\n")
    log.write("send", seq=1)
    log.close()
    history = History.read(tmp_path)
    assert [event.number("seq") for event in history.events] == [0, 1]
    assert history.damaged == [f"{path}:2", f"{path}:3"]


def test_a_log_that_cannot_be_opened_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Log(tmp_path / "none" / "writer.jsonl", "writer")
