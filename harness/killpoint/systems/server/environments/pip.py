"""Runs of pip for an environment, with a deadline, reported progress and a log that is kept."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from killpoint.errors import CannotWork

Tell = Callable[[str], None]
"""Callback that gets what happens, a line at a time."""

WITHIN = 45 * 60.0
"""Seconds for one run of pip: some hundred packages on a slow network and a loaded machine."""
SILENT = 10 * 60.0
"""Seconds without output after which pip is given up; a very large package may take most of
them."""
_TELL_EVERY = 10.0
_BEGUN = re.compile(r"\s*(?:Collecting|Processing) ")
_UNWANTED = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_CONSTRAINT",
    "PIP_REQUIREMENT",
    "PIP_REQUIRE_HASHES",
    "PIP_QUIET",
    "PIP_LOG",
)
"""Variables that would lead a run of pip elsewhere. Indexes, proxies and certificates stay."""


class Run(msgspec.Struct, frozen=True):
    """Interpreter, log and limits of a run of pip."""

    python: Path
    """Interpreter whose pip is run."""
    log: Path
    """File that everything pip prints is appended to."""
    tell: Tell
    keep: tuple[int, ...] = ()
    """Descriptors that it inherits: the lock of what it writes to, held even if we die."""
    within: float = WITHIN
    silent: float = SILENT


def install(run: Run, what: str, arguments: Sequence[str], packages: int) -> None:
    """Run ``pip install`` of so many packages.

    Raises:
        CannotWork: it failed, hung or took too long; the text says why in pip's own words.
    """
    _run(run, what, ["install", "--no-compile", *arguments], packages)


def download(run: Run, what: str, arguments: Sequence[str]) -> None:
    """Run ``pip download`` of one package; raises as :func:`install` does."""
    _run(run, what, ["download", *arguments], 1)


def _run(run: Run, what: str, arguments: list[str], packages: int) -> None:
    options = ["--progress-bar=off", "--no-input", "--disable-pip-version-check"]
    command = [str(run.python), "-I", "-m", "pip", *arguments, *options]
    watch = _Watch(run, what, packages)
    with run.log.open("ab") as log:
        log.write(f"\n$ {' '.join(command)}\n".encode())
        log.flush()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(),
                pass_fds=run.keep,
                start_new_session=True,
            )
        except OSError as error:
            raise CannotWork(f"{what}: pip cannot be started: {error}") from error
        try:
            watch.until_ended(process, log)
        finally:
            _end(process)
    if process.returncode:
        raise CannotWork(
            f"{what}: {watch.reason()} (pip's status {process.returncode}; log: {run.log})"
        )


class _Watch:
    """Reader of what pip prints: progress to report, errors to keep."""

    def __init__(self, run: Run, what: str, packages: int) -> None:
        self._run, self._what, self._packages = run, what, packages
        self._began = self._told = time.monotonic()
        self._seen = 0
        self._errors: list[str] = []
        self._partial = b""

    def until_ended(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
        """Read until pip closes its output.

        Raises:
            CannotWork: it takes too long, or prints nothing for too long.
        """
        assert process.stdout is not None
        deadline, fd = self._began + self._run.within, process.stdout.fileno()
        while True:
            wait = min(self._run.silent, deadline - time.monotonic())
            if wait <= 0 or not select.select([fd], [], [], wait)[0]:
                late = deadline <= time.monotonic()
                said = f"took over {self._run.within:.0f}" if late else "was silent for"
                limit = "" if late else f" {self._run.silent:.0f}"
                raise CannotWork(f"{self._what}: pip {said}{limit} s; log: {self._run.log}")
            block = os.read(fd, 1 << 16)
            if not block:
                process.wait(60)  # for its parent, whom it has told everything
                return
            log.write(block)
            log.flush()
            *lines, self._partial = (self._partial + block).split(b"\n")
            for line in lines:
                self._read(line.decode(errors="replace"))

    def _read(self, line: str) -> None:
        now = time.monotonic()
        if line.startswith("ERROR:"):
            self._errors.append(line.removeprefix("ERROR:").strip())
        elif line.startswith("Installing collected packages") and self._packages:
            self._say(f"unpacking {self._packages} packages")
        elif _BEGUN.match(line):
            self._seen += 1
            if now - self._told >= _TELL_EVERY:
                self._say(f"{self._seen} of {self._packages} packages fetched")

    def _say(self, text: str) -> None:
        self._told = time.monotonic()
        self._run.tell(f"{self._what}: {text}, {self._told - self._began:.0f} s")

    def reason(self) -> str:
        """Return the first of its errors, in pip's own words."""
        return self._errors[0] if self._errors else "pip failed without a word"


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in _UNWANTED}
    return kept | {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill pip and what it started, if it has not ended by itself."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
