"""Call points: the n-th system call of a kind that a native thread of a process makes.

Line, opcode and store points exist only in interpreted code; the native threads of a library are
observed at their system calls. A tracer (strace) attaches to every thread but the main one, counts,
and kills the process as one of them enters its n-th call, which is not executed. Calls are counted
per thread.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

from killpoint.points.refusal import NothingThere, Refused

_WITHIN = 10.0
_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


class CallTrace:
    """Tracer attached to a process's native threads; call :meth:`end` before reading its counts."""

    def __init__(self, pid: int, syscall: str, at: int | None, output: Path) -> None:
        """Attach; ``at``: index, from 0, of the call that kills the process; None only counts.

        Raises:
            NothingThere: the process has no native thread.
            Refused: strace is not installed, or it may not attach.
        """
        if not _NAME.match(syscall):
            raise Refused(f"no system call is named {syscall!r}")
        threads = native_threads(pid)
        if not threads:
            raise NothingThere("no native thread, whose system calls could be struck")
        tool = shutil.which("strace")
        if tool is None:
            raise Refused("no strace on this machine: a native system call cannot be struck")
        self.syscall = syscall
        self.at = at
        self._output = output
        rules = ["-e", f"trace={syscall}", "-e", "signal=none", "-s", "0", "-o", str(output)]
        if at is not None:
            rules += ["-e", f"inject={syscall}:signal=SIGKILL:when={at + 1}"]
        attach = [word for thread in threads for word in ("-p", str(thread))]
        self._process = subprocess.Popen(
            [tool, *rules, *attach], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self._await_attached(len(threads))

    def _await_attached(self, count: int) -> None:
        said = self._process.stderr
        assert said is not None
        end = time.monotonic() + _WITHIN
        heard = b""
        while heard.count(b" attached") < count:
            left = end - time.monotonic()
            data = b""
            if left > 0 and select.select([said], [], [], left)[0]:
                data = os.read(said.fileno(), 65536)
            if not data:
                self.end()
                words = " ".join(heard.decode(errors="replace").split()) or "no answer"
                raise Refused(f"strace may not attach here: {words}")
            heard += data

    def counts(self) -> list[int]:
        """Return the number of such calls for each thread that entered any, in ascending order."""
        try:
            lines = self._output.read_text("utf-8", "replace").splitlines()
        except OSError:
            return []
        return sorted(calls(lines, self.syscall).values())

    def struck(self) -> bool:
        """Return whether a thread entered the call that was to kill the process."""
        return self.at is not None and max(self.counts(), default=0) > self.at

    def end(self) -> None:
        """Detach the tracer, unless the process has ended already."""
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_WITHIN)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


def native_threads(pid: int) -> list[int]:
    """Return the ids of a process's threads other than the main one."""
    try:
        found = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
    return sorted(thread for thread in found if thread != pid)


def calls(lines: list[str], syscall: str) -> Counter[str]:
    """Count the calls that each thread entered; a line about a call's return is not counted."""
    entered = re.compile(rf"^(?:(\d+)\s+)?{syscall}\(")
    found = (entered.match(line) for line in lines)
    return Counter(match.group(1) or "" for match in found if match)
