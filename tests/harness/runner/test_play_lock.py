"""Plays side by side, and one alone: over threads, processes, and deaths."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from killpoint.errors import CannotWork
from killpoint.runner import play_lock
from killpoint.runner.play_lock import alone, beside_others, one_server


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_lock, "_folder", lambda: tmp_path)


def _kept(name: str) -> bool:
    """Whether somebody keeps that lock."""
    fd = os.open(play_lock._folder() / name, os.O_RDWR | os.O_CREAT)  # pyright: ignore[reportPrivateUsage] # the fixture's
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def test_plays_are_beside_each_other() -> None:
    with beside_others(), beside_others() as second:
        assert second


def test_who_would_be_alone_is_not_beside_a_play() -> None:
    with beside_others(), alone(0.1) as locked:
        assert not locked
    with alone(0.1) as locked:
        assert locked


def test_no_play_begins_beside_one_alone_and_all_go_on_after_it() -> None:
    begun = threading.Event()

    def play() -> None:
        with beside_others():
            begun.set()

    with alone(1.0) as locked:
        thread = threading.Thread(target=play)
        thread.start()
        assert locked
        assert not begun.wait(0.3)
    assert begun.wait(10.0)
    thread.join()


def test_who_waits_to_be_alone_lets_no_further_play_begin() -> None:
    waiting, begun, got = threading.Event(), threading.Event(), list[bool]()

    def confirm() -> None:
        waiting.set()
        with alone(20.0) as locked:
            got.append(locked and not begun.is_set())

    def play() -> None:
        with beside_others():
            begun.set()

    with beside_others():
        first = threading.Thread(target=confirm)
        first.start()
        assert waiting.wait(10.0)
        while not _kept("gate"):
            time.sleep(0.001)
        second = threading.Thread(target=play)
        second.start()
    first.join()
    second.join()
    assert got == [True]
    assert begun.is_set()


@pytest.mark.parametrize(
    "wait", [beside_others, partial(beside_others, long=True), alone, one_server]
)
def test_who_waits_may_give_up(wait: Callable[..., AbstractContextManager[bool]]) -> None:
    looks = 0

    def go_on() -> None:
        nonlocal looks
        looks += 1
        if looks > 5:
            raise KeyboardInterrupt

    with alone(), one_server(), pytest.raises(KeyboardInterrupt), wait(go_on=go_on):
        pass
    with wait() as got:
        assert got


def test_the_dead_hold_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from killpoint.runner import play_lock;"
        "play_lock._folder = lambda: Path(sys.argv[1]);"
        "lock = play_lock.alone(); lock.__enter__(); print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with alone(0.1) as locked:
            assert not locked
        holder.kill()
        holder.wait()
    with alone(5.0) as locked:
        assert locked


def test_a_folder_of_somebody_elses_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000 + os.getpid())
    folder = Path(f"/tmp/killpoint-{os.getuid()}")
    folder.mkdir(mode=0o700)
    try:
        with pytest.raises(CannotWork, match="not a folder of this user"), beside_others():
            pass
    finally:
        folder.rmdir()
    assert tmp_path.exists()


def test_all_who_would_be_alone_come_before_the_next_play(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    at_the_gate: list[int] = []
    locked = play_lock._locked  # pyright: ignore[reportPrivateUsage] # seen through, not replaced

    def seen(fd: int, how: int, end: float, go_on: Callable[[], object]) -> bool:
        got = locked(fd, how, end, go_on)
        at_the_gate.extend([how] if got and how == fcntl.LOCK_SH else [])
        return got

    monkeypatch.setattr(play_lock, "_locked", seen)

    def confirm(name: str) -> None:
        with alone(20.0):
            told.append(name)

    def play() -> None:
        with beside_others():
            told.append("play")

    with beside_others():
        at_the_gate.clear()
        threads = [threading.Thread(target=confirm, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        while len(at_the_gate) < 4:  # either gate, both of them
            time.sleep(0.001)
        threads.append(threading.Thread(target=play))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert sorted(told[:2]) == ["one", "two"]


def test_for_a_while_further_long_plays_begin_before_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(play_lock, "_PATIENT", 60.0)
    looked = threading.Event()
    was_alone: list[bool] = []

    def confirm() -> None:
        with alone(120.0, looked.set) as locked:
            was_alone.append(locked)

    with beside_others(long=True):
        thread = threading.Thread(target=confirm)
        thread.start()
        assert looked.wait(10.0)
        with beside_others(long=True):
            assert not _kept("long-gate")
    thread.join(20.0)  # a moment without one is enough
    assert was_alone == [True]


def test_while_a_long_play_is_waited_for_short_ones_begin_and_no_further_long_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(play_lock, "_PATIENT", 0.1)
    order: list[str] = []
    threads: list[threading.Thread] = []

    def begin(name: str, *, long: bool = False) -> threading.Event:
        begun = threading.Event()

        def play() -> None:
            with beside_others(long=long):
                order.append(name)
                begun.set()

        threads.append(threading.Thread(target=play))
        threads[-1].start()
        return begun

    def confirm() -> None:
        with alone(20.0) as locked:
            order.append("alone" if locked else "too late")

    with beside_others(long=True):
        threads.append(threading.Thread(target=confirm))
        threads[-1].start()
        while not _kept("long-gate"):
            time.sleep(0.001)
        assert begin("short").wait(10.0)
        further = begin("long", long=True)
        assert not further.wait(0.3)
        assert begin("short").wait(10.0)
    for thread in threads:
        thread.join()
    assert order == ["short", "short", "alone", "long"]


def test_who_would_be_alone_is_beside_no_long_play_either() -> None:
    with beside_others(long=True), alone(0.1) as locked:
        assert not locked
    with alone(0.1) as locked:
        assert locked
        with alone(0.1) as second:
            assert not second
