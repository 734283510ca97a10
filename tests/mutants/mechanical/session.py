"""What a forked child does: tests in one pytest session, told to the parent line by line."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from killpoint.runner.network import namespaces
from mechanical.footprint import Floor

_PRIVATE = (1 << 14) | (1 << 18)


class Teller:
    """A pytest plugin: runs the chosen tests in the given order, and tells of each."""

    def __init__(self, out: int, order: Sequence[str] | None, floor: Floor | None) -> None:
        """``order``: node ids; None for all. ``floor``: tells what each test touched."""
        self._out = out
        self._floor = floor
        self._rank = None if order is None else {name: rank for rank, name in enumerate(order)}
        self._failed, self._began = "", 0.0

    def tell(self, **what: Any) -> None:
        """One line to the parent."""
        os.write(self._out, json.dumps(what).encode() + b"\n")

    def end(self) -> None:
        """The last word: nothing that is told later will be heard."""
        self.tell(did="all", modules=sorted(_outside()))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only what is asked for, the most telling first."""
        if self._floor:
            self.tell(did="import", touched=sorted(self._floor.lift()))
        rank = self._rank
        if rank is not None:
            items[:] = sorted(
                (item for item in items if item.nodeid in rank), key=lambda item: rank[item.nodeid]
            )

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported fails as a test does."""
        if report.failed:
            self.tell(did="end", test=report.nodeid, failed=True, why="cannot be imported")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins: the parent's clock runs."""
        self._failed, self._began = "", time.monotonic()
        self.tell(did="start", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Of set-up, call and teardown, the first that failed."""
        if report.failed and not self._failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._failed = str(getattr(crash, "message", "")).partition("\n")[0][:200] or "failed"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test has ended."""
        told: dict[str, Any] = {"failed": bool(self._failed), "why": self._failed}
        told["seconds"] = round(time.monotonic() - self._began, 3)
        if self._floor:
            told["touched"] = sorted(self._floor.lift())
        self.tell(did="end", test=nodeid, **told)


def run(teller: Teller, root: Path, paths: Sequence[str], *, to_the_end: bool) -> bool:
    """Run the tests of ``paths``, to the end or to the first failure; whether all have passed."""
    arguments = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--no-header", "--tb=short"]
    arguments += ["--rootdir", str(root), "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    arguments += [] if to_the_end else ["-x"]
    os.chdir(root)
    # What a test spawns would import the main module again, which here is the command itself.
    sys.modules["__main__"] = types.ModuleType("__main__")
    ended = pytest.ExitCode(pytest.main([*arguments, *paths], plugins=[teller]))
    if ended in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERNAL_ERROR):
        # Nothing was reported: a conftest, say, could not import what it needs.
        teller.tell(did="broke", why=f"pytest could not run: {ended.name}")
    return ended == pytest.ExitCode.OK


def seclude(folder: Path) -> None:
    """A process group, a temporary folder and, where it is allowed, a /dev/shm of one's own.

    A mutant may leave anything behind: it goes with the child, and nobody else sees it.
    """
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the command's own would be every role's
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    with contextlib.suppress(OSError):
        namespaces.enter_new(namespaces.NEW_MOUNTS)
        namespaces.call(namespaces.libc.mount, b"none", b"/", None, _PRIVATE, None)
        namespaces.call(namespaces.libc.mount, b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"mode=1777")


def _outside() -> set[str]:
    """Top modules that come from installed packages: worth having before the next fork."""
    return {
        name
        for name, module in list(sys.modules.items())
        if "." not in name and "site-packages" in str(getattr(module, "__file__", ""))
    }
