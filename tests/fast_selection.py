"""``pytest --fast``: the tests that start no process, for the inner loop.

A file is left out if it stands in ``not_fast.txt``. What is not there is taken to be fast, and a
test of it that starts a process fails and says so: so the list cannot rot. ``pytest --note-starts``
adds to it what a run of all tests shows.
"""

from __future__ import annotations

import multiprocessing.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("not_fast.txt")
_STARTS = {
    *("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system"),
    *("subprocess.Popen", "pty.spawn"),
}
_LONG = 1.5
"""Seconds of a file's tests together from which on it is not fast."""
_HEAD = """\
# Test files that `pytest --fast` leaves out: a test of theirs starts a process, or they take long.
# Written by `pytest --note-starts` from a run of all tests.
"""


class StartsProcess(Exception):
    """A test of a fast file starts a process."""


class Watch:
    """Sees processes start. Audit hooks cannot be removed: it looks only inside ``test``."""

    def __init__(self, *, refuses: bool) -> None:
        self._refuses = refuses
        self._item: pytest.Item | None = None
        sys.addaudithook(self._audit)
        plain = multiprocessing.util.spawnv_passfds  # starts one without an audit event

        def watched(*arguments: object) -> int:
            self._saw("multiprocessing")
            return plain(*arguments)

        multiprocessing.util.spawnv_passfds = watched

    @contextmanager
    def test(self, item: pytest.Item) -> Iterator[None]:
        """See what starts meanwhile, and note it at the item."""
        self._item = item
        try:
            yield
        finally:
            self._item = None

    def _audit(self, event: str, _arguments: object) -> None:
        if event in _STARTS:
            self._saw(event)

    def _saw(self, event: str) -> None:
        item = self._item
        if item is None:
            return
        if ("starts", True) not in item.user_properties:
            item.user_properties.append(("starts", True))
        if self._refuses:
            self._item = None
            file = item.nodeid.partition("::")[0]
            what = f"{item.nodeid} starts a process ({event})"
            raise StartsProcess(f"{what}: list {file} in {LIST.name}")


class Noted:
    """Plugin: what a run of all tests says of each file."""

    def __init__(self) -> None:
        self._starts: set[str] = set()
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test."""
        file = report.nodeid.partition("::")[0]
        self._seconds[file] = self._seconds.get(file, 0.0) + report.duration
        if ("starts", True) in [tuple(each) for each in report.user_properties]:
            self._starts.add(file)

    def pytest_sessionfinish(self) -> None:
        """Add to the list what this run has seen; a file leaves it by hand."""
        ran = {file for file in self._seconds if file.startswith("tests/")}
        slow = {file for file in ran if file in self._starts or self._seconds[file] > _LONG}
        # What stood there stays: a start by a thread, or by a shared fixture, is not always seen.
        kept = {file for file in left_out() if (LIST.parents[1] / file).exists()}
        LIST.write_text(_HEAD + "".join(f"{file}\n" for file in sorted(slow | kept)), "utf-8")


def left_out() -> set[str]:
    """Return the files of the list, relative to the checkout."""
    lines = LIST.read_text("utf-8").splitlines() if LIST.exists() else []
    return {line for line in lines if line and not line.startswith("#")}
