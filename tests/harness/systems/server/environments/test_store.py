"""Environments in the cache: whole or not at all, by one maker at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from killpoint.errors import CannotWork
from killpoint.systems.server.environments import store


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KILLPOINT_CACHE", str(tmp_path))
    return tmp_path / "environments"


def _fill(home: Path, _log: Path, _lock: int) -> tuple[str, ...]:
    (home / "engine").write_text("whole")
    return ("built by a test",)


def _plan(fill: Callable[[Path, Path, int], tuple[str, ...]] = _fill, size: int = 10) -> store.Plan:
    return store.Plan("engine-1", "killpoint environment engine==1", 10**6, size, 3, fill)


def test_one_is_made_once_and_size_and_time_are_told_first(cache: Path) -> None:
    told: list[str] = []
    made = store.made(_plan(), False, told.append)
    assert told[0] == (
        f"engine-1: 1 MB to fetch, 0 MB on the disk in {cache}/engine-1, about 3 min on two cores"
    )
    assert told[1].startswith("engine-1: made in 0 s")
    assert made.record.notes == ("built by a test",)
    assert store.stored("engine-1") == made
    assert store.made(_plan(_never), False, told.append) == made
    assert len(told) == 2


def _never(*_: Any) -> tuple[str, ...]:
    raise AssertionError("made a second time")


def test_an_unfinished_one_is_never_used(cache: Path) -> None:
    left = cache / "engine-1"
    left.mkdir(parents=True)
    (left / "half").write_text("a killed maker's")
    assert store.stored("engine-1") is None
    assert store.every() == []
    with pytest.raises(CannotWork, match="is not fetched offline"):
        store.made(_plan(), True, print)
    told: list[str] = []
    made = store.made(_plan(), False, told.append)
    assert told[0] == "engine-1: an unfinished one is removed"
    assert not (made.home / "half").exists()


def test_one_whose_making_failed_leaves_only_its_log(cache: Path) -> None:
    def broken(home: Path, log: Path, _lock: int) -> tuple[str, ...]:
        (home / "half").write_text("")
        log.write_text("why it failed")
        raise CannotWork("pip said no")

    with pytest.raises(CannotWork, match="pip said no"):
        store.made(_plan(broken), False, lambda _text: None)
    assert not (cache / "engine-1").exists()
    assert (cache / "logs" / "engine-1.log").read_text() == "why it failed"


def test_it_is_whole_only_once_everything_is_there(cache: Path) -> None:
    seen: list[store.Environment | None] = []

    def looking(home: Path, log: Path, lock: int) -> tuple[str, ...]:
        notes = _fill(home, log, lock)
        seen.append(store.stored("engine-1"))
        return notes

    store.made(_plan(looking), False, lambda _text: None)
    assert seen == [None]


def test_offline_is_told_what_to_type() -> None:
    with pytest.raises(CannotWork) as refused:
        store.made(_plan(_never), True, print)
    assert "engine-1 is not in " in str(refused.value)
    assert str(refused.value).endswith("to make it: killpoint environment engine==1")


def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 10**9})
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(CannotWork, match=r"engine-1 needs 3\.5 GB on the disk .* 1\.0 GB left"):
        store.made(_plan(_never, 3 * 10**9), False, print)
    assert not (cache / "engine-1").exists()


def test_a_damaged_record_is_named(cache: Path) -> None:
    made = store.made(_plan(), False, lambda _text: None)
    (made.home / "environment.json").write_text("{")
    with pytest.raises(CannotWork, match=r"remove .*engine-1 and start again"):
        store.stored("engine-1")


def test_a_second_maker_waits_for_the_first() -> None:
    inside, go_on = threading.Event(), threading.Event()
    told: list[str] = []

    def slow(home: Path, log: Path, lock: int) -> tuple[str, ...]:
        inside.set()
        assert go_on.wait(30)
        return _fill(home, log, lock)

    first = threading.Thread(target=lambda: store.made(_plan(slow), False, lambda _text: None))
    first.start()
    assert inside.wait(30)
    waits = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        waits.set()

    second = threading.Thread(target=lambda: store.made(_plan(_never), False, tell))
    second.start()
    assert waits.wait(30)
    assert "waiting for another process" in told[0]
    go_on.set()
    first.join(30)
    second.join(30)
    assert not second.is_alive()
    assert len(told) == 1


def test_what_a_maker_started_holds_the_lock(cache: Path) -> None:
    inherited: list[int] = []

    def leaves_one_behind(home: Path, log: Path, lock: int) -> tuple[str, ...]:
        inherited.append(os.dup(lock))  # as a child has it
        return _fill(home, log, lock)

    store.made(_plan(leaves_one_behind), False, lambda _text: None)
    lock = os.open(cache / ".lock", os.O_RDWR)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(inherited[0])
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(lock)
