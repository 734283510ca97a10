"""Who is who: a process's title, and whose a line of output is."""

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, TextIO

_TITLE_BYTES = 15


def set_title(rank: int) -> None:
    """What `ps` and `top` show as the command's name."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(f"refengine:{rank}"[:_TITLE_BYTES])


def prefix_output(rank: int) -> None:
    """Begin each line on the standard streams with the worker's rank and pid."""
    prefix = f"(worker {rank} pid {os.getpid()}) "
    sys.stdout = _Prefixed(sys.stdout, prefix)
    sys.stderr = _Prefixed(sys.stderr, prefix)


class _Prefixed:
    """A text stream that puts something before each line; all else is the stream's own."""

    def __init__(self, stream: TextIO, prefix: str) -> None:
        self._stream, self._prefix = stream, prefix
        self._at_start = True

    def write(self, text: str) -> int:
        if text:
            lines = text.split("\n")
            begun = [self._prefix + line if line else line for line in lines[1:]]
            first = self._prefix + lines[0] if self._at_start and lines[0] else lines[0]
            self._stream.write("\n".join([first, *begun]))
            self._at_start = not lines[-1]
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
