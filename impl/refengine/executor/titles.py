"""Who is who: a process's title, and whose a line of output is."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, TextIO

_TITLE_BYTES = 15


def set_title(part: int | str) -> None:
    """What `ps` and `top` show as the command's name: a worker's rank, or a part's name, cut."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"refengine:{part}"[:_TITLE_BYTES])


def prefix_output(rank: int) -> None:
    """Begin each line on the standard streams with the worker's rank and pid."""
    prefix = f"(worker {rank} pid {os.getpid()}) "
    sys.stdout = _Prefixed(sys.stdout, prefix)
    sys.stderr = _Prefixed(sys.stderr, prefix)


class _Prefixed:
    """A text stream that puts something before each line; all else is the stream's own.

    A line goes on whole, or when it is flushed: parts that several workers print to one
    unbuffered stream would mix.
    """

    def __init__(self, stream: TextIO, prefix: str) -> None:
        self._stream, self._prefix = stream, prefix
        self._rest, self._midway = "", False

    def write(self, text: str) -> int:
        whole, newline, self._rest = (self._rest + text).rpartition("\n")
        if newline:
            self._stream.write("\n".join(map(self._marked, whole.split("\n"))) + "\n")
        return len(text)

    def flush(self) -> None:
        part, self._rest = self._rest, ""
        if part:
            self._stream.write(self._marked(part))
            self._midway = True
        self._stream.flush()

    def _marked(self, line: str) -> str:
        midway, self._midway = self._midway, False
        return self._prefix + line if line and not midway else line

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
