"""The owner's side of a zygote: start it once, have workers forked, let it end with us."""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from multiprocessing import util
from typing import Any, NoReturn

from . import hangup
from .children import Forked, Outcome, has_ended
from .errors import ZygoteFailed
from .held import End, hold
from .link import Link, pair
from .zygote import GOODBYE

_ANSWER = 120.0
_LAST_WORDS = 3.0
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from refengine.executor import zygote; zygote.main()"
)
_util: Any = util


class Zygote:
    """A warm process that has imported what workers need, and forks them.

    It has one thread and ends with this process, and so do, then, all that it forked. Use
    `shared`: one for each set of preloads serves every pool of this process.
    """

    def __init__(self, preload: tuple[str, ...]) -> None:
        self.preload = preload
        self._link, theirs = pair()
        hold(self._link)
        self._said: list[object] = []
        death, alive = os.pipe2(os.O_CLOEXEC)
        self._alive = End(alive)
        hold(self._alive)
        try:
            self._process = Forked(_run(preload, (theirs.fileno(), death)))
            hangup.send_at_hangup(death, self._process.pid)
        finally:
            theirs.close()
            os.close(death)
        util.Finalize(self, _end, args=(self._link, self._alive, self._process), exitpriority=10)

    @classmethod
    def shared(cls, preload: tuple[str, ...]) -> "Zygote":
        """This process's zygote with these preloads, started now if there is none."""
        found = _shared.get(preload)
        if found is None or has_ended(found._process):
            found = _shared[preload] = cls(preload)
        return found

    def warm(self, timeout: float | None = None) -> None:
        """Wait until it has imported its preloads; TimeoutError, or ZygoteFailed."""
        if not self._said:
            if not self._link.has_news(timeout):
                raise TimeoutError(f"the zygote has not imported {self.preload} in {timeout} s")
            try:
                self._said.append(self._link.hear()[0])
            except EOFError:
                self._said.append("it has ended")
        if self._said[0] is not True:
            raise ZygoteFailed(self._process.pid, str(self._said[0]))

    def fork(self, theirs: Link, name: str) -> "Offspring":
        """A worker; see `starting.Start`."""
        ours, report = pair()
        hold(ours)
        try:
            try:
                told = self._link.say(name, theirs.fileno(), report.fileno(), *_streams())
            finally:
                report.close()
            return self._born(ours) if told else self._fail()
        except BaseException:
            ours.close()
            raise

    def _born(self, report: Link) -> "Offspring":
        if not report.has_news(_ANSWER):
            raise ZygoteFailed(self._process.pid, f"it did not answer in {_ANSWER:g} s")
        try:
            pid, (pidfd,) = report.hear()
        except EOFError:
            self._fail()
        return Offspring(pid, pidfd, report)

    def _fail(self) -> NoReturn:
        with contextlib.suppress(TimeoutError):
            self.warm(_LAST_WORDS)
        raise ZygoteFailed(self._process.pid, "it has ended")

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def close(self) -> None:
        """End it."""
        if _shared.get(self.preload) is self:
            del _shared[self.preload]
        _end(self._link, self._alive, self._process)


class Offspring:
    """A child of the zygote's, which says how it ended."""

    def __init__(self, pid: int, pidfd: int, report: Link) -> None:
        self.pid, self.pidfd = pid, End(pidfd)
        hold(self.pidfd)
        self._report = report
        self._outcome: Outcome | None = None

    def outcome(self, seconds: float) -> Outcome | None:
        """See `Process`."""
        if self._outcome is None and self._report.has_news(seconds):
            try:
                self._outcome = Outcome.of(self._report.hear()[0])
            except EOFError:
                self._outcome = Outcome()  # the zygote ended before it
        return self._outcome

    def close(self) -> None:
        """See `Process`."""
        self.pidfd.close()
        self._report.close()


_shared: dict[tuple[str, ...], Zygote] = {}
os.register_at_fork(after_in_child=_shared.clear)


def _run(preload: Sequence[str], descriptors: tuple[int, int]) -> int:
    flags: list[str] = _util._args_from_interpreter_flags()
    executable = sys.executable
    path = json.dumps([os.path.abspath(p or ".") for p in sys.path])  # noqa: PTH100  as it is
    arguments = [executable, *flags, "-c", _PROGRAM, path, *map(str, descriptors), *preload]
    return _util.spawnv_passfds(os.fsencode(executable), arguments, descriptors)


def _streams() -> tuple[int, ...]:
    """What the worker's standard output and error are to be; none: as the zygote's."""
    try:
        for fd in (1, 2):
            os.fstat(fd)
    except OSError:
        return ()
    return 1, 2


def _end(link: Link, alive: End, process: Forked) -> None:
    link.say(GOODBYE)
    link.close()
    if not has_ended(process, _LAST_WORDS):
        alive.close()  # the kernel's turn
        has_ended(process, _LAST_WORDS)
    alive.close()
    with contextlib.suppress(OSError):
        process.outcome(0.0)
    process.close()
