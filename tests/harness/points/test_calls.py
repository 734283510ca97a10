"""Call points: native threads are counted and struck by a tracer, at the call that was meant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.points.calls import CallTrace, calls, native_threads
from killpoint.points.refusal import Refused

_WRITES = 9
_CHILD = f"""
import os, sys, threading
def work():
    sys.stdin.read(1)
    for _ in range({_WRITES}):
        os.write(1, b"x")
thread = threading.Thread(target=work)
thread.start()
os.write(1, b"r")
thread.join()
for _ in range({_WRITES}):
    os.write(1, b"m")
"""
"""A second thread that writes x's, then the main one that writes as many m's."""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    made = subprocess.Popen([sys.executable, "-c", _CHILD], stdin=pipe, stdout=pipe)
    assert made.stdout is not None
    assert os.read(made.stdout.fileno(), 1) == b"r"
    yield made
    made.kill()
    made.communicate(timeout=20)


def _traced(child: subprocess.Popen[bytes], at: int | None, output: Path) -> CallTrace:
    try:
        return CallTrace(child.pid, "write", at, output)
    except Refused as refused:
        pytest.skip(str(refused))


def _rest(child: subprocess.Popen[bytes]) -> bytes:
    said, _ = child.communicate(b"g", timeout=20)
    return said


def test_calls_of_native_threads_are_counted_and_the_main_ones_are_not(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    trace = _traced(child, None, tmp_path / "calls")
    assert _rest(child) == b"x" * _WRITES + b"m" * _WRITES
    trace.end()
    assert trace.counts() == [_WRITES]
    assert not trace.struck()


@pytest.mark.parametrize("at", [0, 1, _WRITES - 1])
def test_the_process_dies_before_the_call_that_was_meant(
    child: subprocess.Popen[bytes], tmp_path: Path, at: int
) -> None:
    trace = _traced(child, at, tmp_path / "calls")
    assert _rest(child) == b"x" * at
    assert child.returncode == -signal.SIGKILL
    trace.end()
    assert trace.struck()


def test_a_call_that_is_never_made_strikes_nobody(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    trace = _traced(child, _WRITES, tmp_path / "calls")
    assert _rest(child).endswith(b"m" * _WRITES)
    trace.end()
    assert not trace.struck()


def test_a_tracer_that_ends_first_lets_the_process_go_on(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    trace = _traced(child, 0, tmp_path / "calls")
    trace.end()
    assert _rest(child) == b"x" * _WRITES + b"m" * _WRITES


def test_a_machine_without_a_tracer_is_told_in_words(
    child: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="no strace"):
        CallTrace(child.pid, "write", None, tmp_path / "calls")


def test_a_tracer_that_may_not_attach_is_told_in_its_own_words(
    child: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "strace"
    tool.write_text("#!/bin/sh\necho 'attach: Operation not permitted' >&2\nexit 1\n", "utf-8")
    tool.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(Refused, match="Operation not permitted"):
        CallTrace(child.pid, "write", None, tmp_path / "calls")


@pytest.mark.parametrize("name", ["", "write:error=EIO", "--help", "a b"])
def test_what_cannot_be_a_call_is_refused(
    child: subprocess.Popen[bytes], tmp_path: Path, name: str
) -> None:
    with pytest.raises(Refused):
        CallTrace(child.pid, name, None, tmp_path / "calls")


def test_a_process_with_one_thread_has_no_native_ones() -> None:
    alone = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert native_threads(alone.pid) == []
    finally:
        alone.kill()
        alone.communicate(timeout=20)
    assert native_threads(alone.pid) == []


def test_entered_calls_are_counted_by_thread() -> None:
    lines = [
        '11 sendto(9, ""..., 7, 0, NULL, 0) = 7',
        "12 sendto(8,  <unfinished ...>",
        "12 <... sendto resumed>) = 3",
        "11 sendto(9) = ?",
        "11 sendtoo(9) = 1",
        "11 +++ killed by SIGKILL +++",
    ]
    assert calls(lines, "sendto") == {"11": 2, "12": 1}
    assert calls(["sendto(9) = 7"], "sendto") == {"": 1}
