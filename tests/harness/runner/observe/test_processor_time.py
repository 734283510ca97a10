"""The control of verdicts about time: what the kernel kept from running, and when."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from synthetic import MS, Tape

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.observe import processor_time
from killpoint.runner.observe.processor_time import Attendance, ProcessorTime, waits_of
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


def _attended(
    looks: list[tuple[int | None, dict[str, tuple[bool, int]]]], monkeypatch: pytest.MonkeyPatch
) -> list[float]:
    """What an attendance is after each look, a tenth of a second apart."""
    now, each, attendance = 0.0, iter(looks), Attendance()
    found: list[float] = []
    for order, threads in each:
        monkeypatch.setattr(processor_time, "_threads_of", lambda _, seen=threads: seen)
        monkeypatch.setattr(processor_time, "time", SimpleNamespace(monotonic=lambda at=now: at))
        found.append(round(attendance.look(1, order), 3))
        now += 0.1
    return found


def test_who_sleeps_in_an_operation_attends_it_and_who_is_ready_as_far_as_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asleep, other = {"1": (False, 500 * MS)}, {"2": (False, 0)}
    assert _attended([(1, asleep)] * 3, monkeypatch) == [0.0, 0.1, 0.2]
    spins = [(1, {"1": (True, ran * MS)} | other) for ran in (0, 100, 130, 130, 300)]
    assert _attended([*spins], monkeypatch) == [0.0, 0.1, 0.13, 0.13, 0.23]
    starved = [(1, asleep | {"2": (True, 7 * MS)})] * 3
    assert _attended([*starved], monkeypatch) == [0.0, 0.0, 0.0]


def test_another_operation_is_attended_from_its_first_look_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asleep = {"1": (False, 500 * MS)}
    orders = [1, 1, 2, 2, None, 2, 2]
    found = _attended([(order, asleep) for order in orders], monkeypatch)
    assert found == [0.0, 0.1, 0.0, 0.1, 0.0, 0.0, 0.1]


def test_the_threads_of_a_process_are_seen_ready_or_asleep() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as sleeper:
        while b"S" not in Path(f"/proc/{sleeper.pid}/stat").read_bytes().split()[2]:
            os.sched_yield()
        ((ready, ran),) = processor_time._threads_of(sleeper.pid).values()
        assert not ready
        assert ran > 0
        sleeper.kill()
    mine = processor_time._threads_of(os.getpid())
    assert mine[str(threading.get_native_id())][0]


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
