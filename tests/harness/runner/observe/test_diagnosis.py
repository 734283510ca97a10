"""What a process is doing, seen from outside."""

from __future__ import annotations

import itertools
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from killpoint.runner.observe import diagnosis


def _gone() -> int:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(30)
    return done.pid


def test_a_process_that_is_gone_has_no_state_and_maps_nothing() -> None:
    pid = _gone()
    assert diagnosis.state(pid) == ""
    assert diagnosis.cpu_seconds(pid) == 0.0
    assert diagnosis.mapped_segments(pid) == []
    assert diagnosis.stack(pid) == ["gone"]


def test_a_stopped_process_is_seen_stopped_and_a_reaped_one_a_zombie_before() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert diagnosis.state(child.pid) == "T"
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert diagnosis.state(child.pid) == "Z"
    finally:
        child.kill()
        child.communicate(timeout=10)


def test_a_command_with_a_parenthesis_in_its_name_is_read_right(tmp_path: Path) -> None:
    odd = tmp_path / "a) S (b"
    odd.symlink_to(sys.executable)
    child = subprocess.Popen([str(odd), "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert diagnosis.state(child.pid) in ("R", "S", "D")
    finally:
        child.kill()
        child.communicate(timeout=10)


def test_what_the_tracker_of_resources_says_later_is_not_what_its_process_said(
    tmp_path: Path,
) -> None:
    said = tmp_path / "writer.err"
    said.write_text(
        "Too many open files (src/ipc_listener.cpp:297)\n"
        "/usr/lib/python3/multiprocessing/resource_tracker.py:301: UserWarning: resource_tracker:"
        " There appear to be 1 leaked shared_memory objects to clean up at shutdown: {'/a'}\n"
        "  warnings.warn(\n"
    )
    assert diagnosis.last_line(said) == "Too many open files (src/ipc_listener.cpp:297)"
    with said.open("a") as file:
        file.write("  warnings.warn('resource_tracker: There appear to be %d '\n")
    assert diagnosis.last_line(said) == "Too many open files (src/ipc_listener.cpp:297)"


def test_cpu_time_is_counted() -> None:
    before = diagnosis.cpu_seconds(os.getpid())
    while diagnosis.cpu_seconds(os.getpid()) < before + 0.02:
        sum(range(10_000))
    assert diagnosis.cpu_seconds(os.getpid()) > before


def test_mapped_segments_are_those_that_still_have_a_name() -> None:
    paths = [Path(f"/dev/shm/kp-test-{os.getpid()}-{n}") for n in range(2)]
    maps: list[mmap.mmap] = []
    try:
        for path in paths:
            path.write_bytes(bytes(4096))
            with path.open("r+b") as file:
                maps.append(mmap.mmap(file.fileno(), 4096))
        paths[1].unlink()
        names = diagnosis.mapped_segments(os.getpid())
        assert paths[0].name in names
        assert paths[1].name not in names
    finally:
        for one in maps:
            one.close()
        for path in paths:
            path.unlink(missing_ok=True)


def test_what_runs_now_and_then_waits_and_what_always_does_runs() -> None:
    naps = "import time\nwhile True:\n    sum(range(200_000)); time.sleep(0.05)"
    spins = "while True: pass"
    for program, told in ((naps, "S"), (spins, "R")):
        told_to = f"print(flush=True)\n{program}"
        process = subprocess.Popen([sys.executable, "-c", told_to], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            process.stdout.read(1)
            letters = {diagnosis.steady_state(process.pid) for _ in range(5)}
        finally:
            process.kill()
            process.communicate()
        assert letters == {told}


_LOOP = """
def sched_yield():
    return sum(range(3000))


def look():
    return sum(range(3000))


def acquire():
    print(flush=True)
    while True:
        sched_yield()
        look()


acquire()
"""


def test_a_loop_is_at_the_function_that_it_goes_round_in(tmp_path: Path) -> None:
    (tmp_path / "ring.py").write_text(_LOOP)
    process = subprocess.Popen([sys.executable, str(tmp_path / "ring.py")], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.read(1)
        told = [diagnosis.seen(process.pid) for _ in range(3)]
    finally:
        process.kill()
        process.communicate()
    assert [each["state"] for each in told] == ["R"] * 3
    for each in told:
        [innermost, module] = each["stack"]
        assert innermost.startswith("acquire (")
        assert module.startswith("<module> (")


@pytest.mark.parametrize("look_takes", [0.06, 0.7])
def test_a_slow_machine_reads_as_many_stacks_as_tell_a_loop_from_what_it_calls(
    look_takes: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = ["acquire (ring.py:13)", "<module> (ring.py:17)"]
    calls = itertools.cycle([["look (ring.py:7)"]] * 3 + [["sched_yield (ring.py:3)"]] * 2)
    now = [0.0]

    def dump(_: list[str], within: float) -> list[str]:
        now[0] += min(look_takes, within)
        return next(calls) + loop if within >= look_takes else []

    monkeypatch.setattr(diagnosis, "_dump", dump)
    monkeypatch.setattr(diagnosis, "steady_state", lambda _: "R")
    monkeypatch.setattr(diagnosis, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert diagnosis.seen(os.getpid())["stack"] == loop
    assert now[0] < 16.0
