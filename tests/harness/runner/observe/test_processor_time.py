"""The control of verdicts about time: what the kernel kept from running, and when."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from synthetic import MS, Tape

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.observe.processor_time import ProcessorTime, waits_of
from killpoint.runner.role_process import RoleProcess

_SPINS = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"


def test_a_role_that_shares_its_processor_is_seen_to_be_denied_it(tmp_path: Path) -> None:
    log = Log(tmp_path / "director.jsonl", "director")
    spinners = [subprocess.Popen([sys.executable, "-c", _SPINS]) for _ in range(3)]
    try:
        control = ProcessorTime(log)
        actor = RoleProcess("writer", spinners[0].pid, spinners[0].pid)
        end = time.monotonic() + 20.0
        while control.denied("writer") < 0.3 and time.monotonic() < end:
            control.sample([actor])
            os.sched_yield()
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    assert control.denied("writer") >= 0.3
    log.close()
    history = History.read(tmp_path)
    assert history.denied(history.start(), history.events[-1].t) > 50 * MS


def test_who_waits_is_denied_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path / "director.jsonl", "director")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as sleeper:
        while b"S" not in Path(f"/proc/{sleeper.pid}/stat").read_bytes().split()[2]:
            os.sched_yield()
        before = waits_of(sleeper.pid)
        control = ProcessorTime(log)
        for _ in range(3):
            control.sample([RoleProcess("reader-0", sleeper.pid, sleeper.pid)])
        assert waits_of(sleeper.pid).keys() == before.keys()
        sleeper.kill()
    log.close()


def test_nobody_is_asked_of_who_is_gone() -> None:
    assert waits_of(4_000_000) == {}


def test_only_what_lies_in_the_interval_counts() -> None:
    tape = Tape().tell("director", "denied", target="writer", ns=50 * MS, over=10 * MS)
    at = tape.now
    history = tape.history()
    assert history.denied(at - 100 * MS, at) == 50 * MS
    assert history.denied(at - 20 * MS, at) == 20 * MS
    assert history.denied(at - 100 * MS, at - 40 * MS) == 20 * MS
    assert history.denied(at, at + 10 * MS) == 0


def test_one_role_is_denied_and_not_the_sum_of_all() -> None:
    tape = Tape()
    for role in ("writer", "reader-0"):
        tape.tell("director", "denied", target=role, ns=30 * MS, over=MS)
    history = tape.history()
    assert history.denied(tape.now - 100 * MS, tape.now) == 30 * MS


def test_the_allowance_is_twice_the_worse_control() -> None:
    tape = Tape().tell("director", "late-tick", ns=10 * MS)
    tape.tell("director", "denied", target="writer", ns=30 * MS, over=MS)
    history = tape.history()
    assert history.allowance(tape.now - 100 * MS, tape.now) == 60 * MS
