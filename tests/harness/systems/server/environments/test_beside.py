"""`beside.py`: the front is the process that was started; a keeper ends the others after it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from killpoint.systems.server.environments import beside

WITHIN = 60.0
SAYS = (
    "import os, signal, sys;"
    " say = lambda *w: os.write(1, (' '.join(map(str, w)) + '\\n').encode());"
    " blocked = len(signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]));"
)
"""What each fake program begins with. A line is written at once, so that lines are not torn."""
OTHER = (
    f"{SAYS} say('up', os.getpid(), os.getppid(), blocked);"
    " signal.sigwait([signal.SIGTERM]); say('told')"
)
DEAF = f"{SAYS} say('up', os.getpid(), os.getppid(), blocked); signal.pause()"
FRONT = (
    f"{SAYS} say('front', os.getpid());"
    " signal.sigwait([signal.SIGTERM]); say('front ends'); sys.exit(7)"
)


class Deployment:
    """A front and others, and what they have said."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._lines = self._read()

    def line(self) -> str:
        """The next line; empty once all have ended."""
        return next(self._lines, "")

    def rest(self) -> list[str]:
        """Every line until all have ended."""
        return list(self._lines)

    def _read(self) -> Iterator[str]:
        assert self.process.stdout is not None
        data, fd = b"", self.process.stdout.fileno()
        while True:
            assert select.select([fd], [], [], WITHIN)[0], f"silent for {WITHIN:.0f} s"
            block = os.read(fd, 4096)
            if not block:
                return
            *lines, data = (data + block).split(b"\n")
            yield from (line.decode() for line in lines)


@contextmanager
def _deployed(
    front: str, *others: str, grace: float = beside.GRACE
) -> Generator[tuple[Deployment, list[int], int]]:
    """Started; with the pids of the others, and their keeper's, once all are up."""
    words = [sys.executable, "-c", front]
    for other in others:
        words += ["--", sys.executable, "-c", other]
    run = f"import sys; sys.path.insert(0, {str(Path(beside.__file__).parent)!r}); import beside;"
    run += f" beside.GRACE = {grace}; beside.main()"
    process = subprocess.Popen(
        [sys.executable, "-c", run, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    found = Deployment(process)
    pids: list[int] = []
    keeper = 0
    try:
        said = [found.line().split() for _ in range(1 + len(others))]
        assert ["front", str(process.pid)] in said
        for _, pid, above, blocked in (each for each in said if each[0] == "up"):
            assert blocked == "0"  # signals that the keeper waits for are none of theirs to miss
            pids.append(int(pid))
            keeper = int(above)
        yield found, pids, keeper
    finally:
        for pid in (process.pid, *pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(WITHIN)
        assert process.stdout is not None
        process.stdout.close()


def test_a_signal_is_the_fronts_alone_and_so_is_its_status() -> None:
    with _deployed(FRONT, OTHER, OTHER) as (found, pids, keeper):
        assert keeper not in (found.process.pid, *pids)
        found.process.send_signal(signal.SIGTERM)
        assert found.rest() == ["front ends", "told", "told"]
        assert found.process.wait(WITHIN) == 7


def test_the_others_are_told_to_end_also_where_the_front_is_killed() -> None:
    with _deployed(FRONT, OTHER) as (found, _, _):
        found.process.kill()
        assert found.rest() == ["told"]
        assert found.process.wait(WITHIN) == -signal.SIGKILL


def test_one_that_dies_ends_nobody_and_is_waited_for() -> None:
    with _deployed(FRONT, OTHER, OTHER) as (found, [first, _], _):
        watch = os.pidfd_open(first)
        os.kill(first, signal.SIGKILL)
        assert select.select([watch], [], [], WITHIN)[0]
        os.close(watch)
        assert found.process.poll() is None
        found.process.terminate()
        assert found.rest() == ["front ends", "told"]  # one, since the other lived


@pytest.mark.parametrize("stopped", [False, True])
def test_who_does_not_end_when_told_is_killed(stopped: bool) -> None:
    with _deployed(FRONT, OTHER if stopped else DEAF, OTHER, grace=0.2) as (found, pids, _):
        if stopped:
            os.kill(pids[0], signal.SIGSTOP)
        found.process.terminate()
        assert found.rest() == ["front ends", "told"]


def test_the_others_do_not_outlive_their_keeper() -> None:
    with _deployed(FRONT, OTHER) as (found, [other], keeper):
        watch = os.pidfd_open(other)
        os.kill(keeper, signal.SIGKILL)
        assert select.select([watch], [], [], WITHIN)[0]
        os.close(watch)
        assert found.process.poll() is None


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["no-such-program", "--", "true"], 127, "beside.py: no-such-program cannot be started"),
        (["sh", "-c", "exit 3"], 3, ""),
        (["true", "--", "--", "true"], 1, "usage: beside.py FRONT"),
        ([], 1, "usage: beside.py FRONT"),
    ],
)
def test_what_is_started_alone_or_cannot_be(words: list[str], status: int, told: str) -> None:
    ran = subprocess.run(
        [sys.executable, beside.__file__, *words],
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert ran.returncode == status
    assert told in ran.stderr
