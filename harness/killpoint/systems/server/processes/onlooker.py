"""Looks at a server with ``killpoint inspect``, as of a user whose server hangs.

The command itself runs, in a process of its own: the record has what a user would have read, and a
look takes no time from the clients of the play.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec

_COMMAND = [sys.executable, "-c", "import sys; from killpoint.entry import main; sys.exit(main())"]
_EACH = 0.1
"""Seconds between two looks of a series."""
_LINE = 1 << 24
"""Bytes that one look may take, as JSON."""
_WITHIN = 60.0
"""Seconds within which a look comes, on a machine whose every processor spins."""
_NAMED = re.compile(r"\bpid (\d+)")


class _Culprit(msgspec.Struct):
    sentence: str
    pid: int | None = None


class Inspection(msgspec.Struct):
    """Recorded facts of one look."""

    culprits: list[_Culprit] = []
    unsure: list[str] = []
    seconds: float = 0.0

    @property
    def says(self) -> str:
        """Its first line: the process that all others wait for; empty: it blames none."""
        return self.culprits[0].sentence if self.culprits else ""

    @property
    def blamed(self) -> int | None:
        """Pid that its first line names first; None: none."""
        if not self.culprits:
            return None
        named = _NAMED.search(self.says)
        return self.culprits[0].pid or (int(named[1]) if named else None)


_looks = msgspec.json.Decoder(Inspection)


class NoAnswer(Exception):
    """The command did not answer in time."""


async def looks(pid: int, times: int) -> AsyncIterator[Inspection]:
    """Yield so many looks at a process and all below it; fewer, if it ends meanwhile.

    Raises:
        NoAnswer: a look took too long.
    """
    watch = ["--watch", "--every", str(_EACH)] if times > 1 else []
    command = [*_COMMAND, "inspect", str(pid), "--json", *watch]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, limit=_LINE)
    assert process.stdout is not None
    try:
        for _ in range(times):
            try:
                async with asyncio.timeout(_WITHIN):
                    line = await process.stdout.readline()
            except TimeoutError as error:
                raise NoAnswer(f"killpoint inspect took more than {_WITHIN:g} s") from error
            if not line:
                return
            yield _looks.decode(line)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def part_of(pid: int | None, parts: Mapping[str, int]) -> str:
    """Return the part that a process is, or descends from; empty: of no part."""
    named = {at: part for part, at in parts.items()}
    while pid:
        if pid in named:
            return named[pid]
        pid = _parent(pid)
    return ""


def _parent(pid: int) -> int:
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(told.rpartition(")")[2].split()[1])
