"""Foreign code that hangs is explained, or it is said what cannot be seen: never an all clear."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.cli import main
from killpoint.inspection.collect import look
from killpoint.inspection.processes import tree

_HANGS = Path(__file__).with_name("hangs.py")
_WITHIN = 20.0
_STILL = 5
"""Looks, 10 ms apart, at which nobody has moved: everybody stands where they hang."""


@contextlib.contextmanager
def _played(way: str, folder: Path) -> Iterator[dict[str, int]]:
    """The pids that play a part, ``top`` the first of all. All of them are ended, by pid."""
    command = [sys.executable, str(_HANGS), way, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as play:
        try:
            line = play.stdout.readline() if play.stdout else ""
            assert line, "the play did not come to its hang"
            said = json.loads(line)
            _settle([pid for pid in said.values() if pid != said.get("runs")])
            if "turns" in said:
                _turns(said["turns"])
            yield {"top": play.pid, **said}
        finally:
            for process in tree(play.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)


def _settle(pids: list[int]) -> None:
    ends, still, last = time.monotonic() + _WITHIN, 0, ""
    while still < _STILL:
        assert time.monotonic() < ends, "the play does not come to rest"
        now = "".join(map(_threads, pids))
        still = still + 1 if now == last and "R (" not in now else 0
        last = now
        threading.Event().wait(0.01)


def _turns(pid: int) -> None:
    """Wait until a process that is to look up again and again does."""
    ends, turns, last = time.monotonic() + _WITHIN, 0, ""
    while turns < _STILL:
        assert time.monotonic() < ends, "the play does not begin to turn"
        status = Path(f"/proc/{pid}/status").read_text()
        slept = re.findall(r"^voluntary_ctxt_switches:.*$", status, re.MULTILINE)[0]
        turns, last = turns + (slept != last), slept
        threading.Event().wait(0.01)


def _threads(pid: int) -> str:
    """State and switches of each thread."""
    texts: list[str] = []
    for task in sorted(Path(f"/proc/{pid}/task").iterdir()):
        with contextlib.suppress(OSError):
            texts.append((task / "status").read_text())
    kept = re.compile(r"^(State:.*|\w*voluntary_ctxt_switches:.*)$", re.MULTILINE)
    return " ".join(match for text in texts for match in kept.findall(text))


_NAMED = [
    ("shared_lock", "pid {waiter} (", "in shared memory", "all who map it wait for it"),
    ("own_write_end", "pid {waiter} (", "reads pipe", "is held by it itself alone"),
    ("full_pipe", "pid {culprit} (", "is stopped by a signal — 1 process waits for it"),
    ("stopped_peer", "pid {culprit} (", "is stopped by a signal — 1 process waits for it"),
    ("chain", "pid {culprit} (", "reads pipe", "at chain.<locals>.peer (hangs.py"),
    ("not_accepted", "pid {culprit} (", "is stopped by a signal — 1 process waits for it"),
    ("file_lock", "pid {culprit} (", "is stopped by a signal — 1 process waits for it"),
    ("stopped_child", "pid {culprit} (", "is stopped by a signal — 1 process waits for it"),
    ("event", "pid {waiter} (", "an event in shared memory"),
    ("circle", "each other: pid {waiter} (", "; pid {culprit} (", "at circle (hangs.py"),
    ("queue_put", "pid {waiter} (", "QueueFeederThread writes pipe", "by it itself alone"),
    ("orphan", "pid {culprit} (", "begun by a process that is gone", "nobody has the other end"),
    ("deserted_server", "pid {waiter} (", "has 1 connection of clients open, and nobody who"),
    (
        "no_descriptors",
        "pid {culprit} (",
        "descriptors open that it may have: 1 connection waits",
    ),
    ("uninterruptible", "pid {culprit} (", "is in uninterruptible sleep in the kernel"),
]
_CANNOT_TELL = [
    ("thread_lock", "pid {waiter} (", "thread holder waits for a signal, at thread_lock.<locals>"),
    ("two_locks", "pid {waiter} (", "thread left", "which thread would end that cannot be seen"),
    ("inherited", "pid {waiter} (", "reads socket", "pid {culprit} (", "sleeps for "),
    ("inherited_by_server", "pid {waiter} (", "pid {culprit} (", "or inherited it, cannot be seen"),
    ("inherited_by_loop", "pid {waiter} (", "pid {runs} (", "or inherited it, cannot be seen"),
    ("interpreter_lock", "pid {waiter} (", "it holds Python's lock"),
    ("zeromq", "pid {waiter} (", "no peer of its ZeroMQ sockets is connected"),
    ("condition", "pid {waiter} (", "an event or a queue of its own process", "condition (hangs."),
    ("queue_put_beside", "pid {waiter} (", "QueueFeederThread writes pipe"),
    ("zombie", "pid {culprit} (", "is dead, and its parent has not reaped it: pid {waiter} ("),
    ("ring", "ring psm_", "has no living writer", "waited for by pid {waiter}, pid {other}"),
    ("pool", "a lock or an event in shared memory"),
    (
        "server_beside",
        "pid {culprit} (",
        "is stopped by a signal, and pid {waiter} (",
        "to do with",
    ),
    ("server_that_turns", "pid {culprit} (", "is stopped by a signal, and pid {runs} ("),
    ("server_beside_stuck", "pid {core} (", "reads socket", "and pid {waiter} (", "to do with it"),
    ("zeromq_server", "pid {waiter} (", "no peer of its ZeroMQ sockets is connected"),
]
_HEALTHY = ["server", "asyncio_server", "queue_worker", "busy", "left_by_shell"]


def _inspected(
    way: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, dict[str, int]]:
    """Exit status, the lines before the list of processes, and the pids."""
    with _played(way, folder) as pids:
        status = main(["inspect", str(pids.get("looked", pids["top"]))])
    return status, capsys.readouterr().out.split("\nprocesses\n")[0], pids


@pytest.mark.parametrize(("way", "told"), [(way, told) for way, *told in _NAMED])
def test_the_end_of_the_chain_is_named(
    way: str, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text, pids = _inspected(way, tmp_path, capsys)
    assert status == 1, text
    first = text.splitlines()[0]
    assert first.startswith("everybody waits for: ")
    assert [each for each in told if each.format(**pids) not in first] == [], first


@pytest.mark.parametrize(("way", "told"), [(way, told) for way, *told in _CANNOT_TELL])
def test_what_cannot_be_seen_is_said(
    way: str, told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text, pids = _inspected(way, tmp_path, capsys)
    assert status == 3, text
    first = text.splitlines()[0]
    assert first.startswith("cannot tell: ")
    assert [each for each in told if each.format(**pids) not in first] == [], first


@pytest.mark.parametrize("way", _HEALTHY)
def test_whoever_rests_or_computes_is_not_accused(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text, _ = _inspected(way, tmp_path, capsys)
    assert status == 0, text
    assert text.startswith("all clear: nobody waits in vain; each of ")
    assert "has a living other party" in text


@pytest.mark.skipif(os.getuid() != 0, reason="only root can look with fewer rights")
def test_without_the_right_to_trace_it_says_so(tmp_path: Path) -> None:
    with _played("own_write_end", tmp_path) as pids:
        look(os.getpid())  # what a look imports is there before the rights go
        answer, told = os.pipe()
        onlooker = os.fork()
        if onlooker == 0:
            try:
                os.setgroups([])
                os.setuid(65534)
                picture = look(pids["top"])
                os.write(told, json.dumps([len(picture.culprits), picture.unsure]).encode())
            finally:
                os._exit(0)
        os.close(told)
        with os.fdopen(answer) as words:
            culprits, (unsure,) = json.load(words)
        os.waitpid(onlooker, 0)
    assert culprits == 0
    assert "its system calls may not be read: that needs the right to trace it" in unsure
