"""Creations and removals of shared-memory names are journalled, a fork's too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from killpoint.history.record import History

_PROGRAM = """
import os, sys
from multiprocessing import shared_memory
from pathlib import Path
from killpoint.history.log import Log
from killpoint.runner.observe.shm_names import journal_names
journal_names(Log(Path(sys.argv[1]) / "writer.jsonl", "writer"))
segment = shared_memory.SharedMemory(create=True, size=64)
print(segment.name)
plain = Path(f"/dev/shm/kp-plain-{os.getpid()}")
plain.write_bytes(b"x")
print(plain.name)
plain.read_bytes()
if os.fork() == 0:
    plain.unlink()
    os._exit(0)
os.wait()
segment.close()
segment.unlink()
"""


def test_both_ways_to_make_a_name_are_told_with_the_process_that_did_it(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        env=environment,
        timeout=30,
        check=True,
        capture_output=True,
        text=True,
    )
    segment, plain = done.stdout.split()
    told = [
        (event.text("act"), event.text("name"), event.number("pid"))
        for event in History.read(tmp_path).of("segment")
    ]
    maker = told[0][2]
    child = told[2][2]
    assert told == [
        ("create", segment, maker),
        ("create", plain, maker),
        ("unlink", plain, child),
        ("unlink", segment, maker),
    ]
    assert child != maker
