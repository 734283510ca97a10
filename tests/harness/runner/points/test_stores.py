"""Stores are numbered in their real order, over all processes of a play."""

from __future__ import annotations

import os
from pathlib import Path

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.points.stores import StoreRecorder


def _stores(folder: Path, role: str, count: int) -> None:
    record = StoreRecorder(folder / "order", Log(folder / f"{role}.jsonl", role))
    for turn in range(count):
        with record(slot=0, flag=1, value=turn % 2):
            pass


def test_numbers_of_two_processes_are_one_sequence_without_gap_or_repeat(tmp_path: Path) -> None:
    pid = os.fork()
    _stores(tmp_path, "child" if pid == 0 else "parent", 200)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    turns = sorted(event.number("turn") for event in History.read(tmp_path).of("store"))
    assert turns == list(range(400))


def test_a_process_that_dies_inside_a_store_holds_nobody_up(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        record = StoreRecorder(tmp_path / "order", Log(tmp_path / "dead.jsonl", "dead"))
        with record(0, 0, 1):
            os._exit(9)
    os.waitpid(pid, 0)
    _stores(tmp_path, "alive", 1)
    turns = [event.number("turn") for event in History.read(tmp_path).of("store")]
    assert turns == [0, 1]


def test_a_store_that_raises_gives_the_lock_back(tmp_path: Path) -> None:
    record = StoreRecorder(tmp_path / "order", Log(tmp_path / "a.jsonl", "a"))
    try:
        with record(0, 0, 1):
            raise KeyError
    except KeyError:
        pass
    pid = os.fork()
    if pid == 0:
        _stores(tmp_path, "b", 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
