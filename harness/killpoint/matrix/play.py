"""Playing one target: ``killpoint check`` as a process of its own, and what became of it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO

from killpoint.matrix.result_row import CheckOptions, ColumnFolder, Row

GRACE = 900.0
"""Seconds that a check may take beyond its budget: its last cases, and a first fetch."""
_LEAVING = 60.0
"""Seconds in which an interrupted check ends its plays and removes what they left."""


def play(
    place: ColumnFolder, asked: CheckOptions, jobs: int | None = None, grace: float = GRACE
) -> Row:
    """Judge a target, and keep the row; its folder is emptied first.

    A target that cannot be had, or a check that fails, is noted in the row.
    """
    shutil.rmtree(place.folder, ignore_errors=True)
    place.folder.mkdir(parents=True)
    row = Row(place.target, asked)
    began = time.monotonic()
    log = place.folder / "check.log"
    try:
        status = _check(place, asked, jobs, log, asked.budget + grace)
    except subprocess.TimeoutExpired:
        row.trouble = f"check had not ended {grace:g} s after its budget of {asked.budget:g} s"
    else:
        row.run = _judged(place.folder) if status in (0, 1, 3) else ""
        if not row.run:
            row.trouble = _last_line(log) or f"check ended with status {status}"
    row.seconds = round(time.monotonic() - began, 1)
    place.keep(row)
    return row


def _check(
    place: ColumnFolder, asked: CheckOptions, jobs: int | None, log: Path, within: float
) -> int:
    """The exit status of a check that writes its run below the row's folder."""
    words = ["check", "--target", place.target, *asked.words(), "--no-attribution"]
    words += ["--out", str(place.folder)]
    words += ["--jobs", str(jobs)] if jobs else []
    with log.open("wb") as out:
        child = _begin([sys.executable, "-m", "killpoint.cli", *words], out)
        try:
            return _status(child, within)
        except BaseException:
            _end(child)
            raise


def _status(child: subprocess.Popen[bytes], within: float) -> int:
    """Return the exit status of a child.

    An interrupt comes through at once: Popen.wait would hold it for 0.25 s.
    """
    ended = os.pidfd_open(child.pid)
    try:
        if not select.select([ended], [], [], within)[0]:
            raise subprocess.TimeoutExpired(child.args, within)
    finally:
        os.close(ended)
    return child.wait()


def _begin(command: list[str], out: BinaryIO) -> subprocess.Popen[bytes]:
    """Start it, ended again if we are interrupted before we hold it.

    It heeds an interrupt even where we were begun to ignore it, in a shell's background: what we
    handle while it starts, it does not inherit as ignored.
    """
    interrupted: list[int] = []
    mine = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if mine:
        signal.signal(signal.SIGINT, lambda number, _frame: interrupted.append(number))
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            process_group=0,  # an interrupt from the terminal reaches it through us: once
        )
    finally:
        if mine:
            signal.signal(signal.SIGINT, before)
    if interrupted:
        _end(child)
        raise KeyboardInterrupt
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    """Interrupt a check, so that it cleans up; end it if it does not."""
    child.send_signal(signal.SIGINT)
    try:
        child.wait(_LEAVING)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def _judged(folder: Path) -> str:
    """The name of the run's folder below the row's."""
    found = sorted(folder.glob("*/verdict.json"))
    return found[-1].parent.name if found else ""


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""
