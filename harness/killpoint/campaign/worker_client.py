"""A player from outside: its process, the line to it, and what it said last."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from multiprocessing import Pipe
from typing import IO

import msgspec

from killpoint.campaign.work_order import WorkOrder, WorkResult
from killpoint.errors import CannotWork

_MODULE = "killpoint.campaign.worker_main"
_ENDS_WITHIN = 10.0
"""Seconds that a player has to end its processes and remove its folders."""


def _no_name() -> IO[bytes]:
    """A file that nothing is left of: what a player says is as long as it likes."""
    return tempfile.TemporaryFile()


class Player:
    """A process that plays orders; it ends on request, or when the process that began it dies."""

    def __init__(self, target: str, device: str) -> None:
        """Start it.

        Raises:
            CannotWork: the machine gives no process.
        """
        self._line, theirs = Pipe()
        self._said = _no_name()
        self._lock = threading.Lock()
        self._words: str | None = None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _MODULE, str(theirs.fileno()), target, device],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                start_new_session=True,  # a Ctrl-C is for the campaign, which gives the items back
            )
        except OSError as error:
            self._line.close()
            self._said.close()
            raise CannotWork(f"cannot start a player: {error}") from error
        finally:
            theirs.close()

    def ask(self, order: WorkOrder) -> WorkResult | None:
        """Have an order played; None if there is no answer within its time.

        Raises:
            EOFError, OSError: the player has died.
        """
        self._line.send_bytes(msgspec.msgpack.encode(order))
        if not self._line.poll(order.within):
            return None
        return msgspec.msgpack.decode(self._line.recv_bytes(), type=WorkResult)

    def end(self) -> str:
        """End it, by any thread, as often as one likes; how it ended, with its last words.

        It unwinds and removes what it made; if it does not in time, its zygote does.
        """
        with self._lock:
            if self._words is None:
                self._words = self._end()
            return self._words

    def _end(self) -> str:
        died = self._process.poll()
        if died is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDS_WITHIN)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._line.close()
        self._said.seek(0)
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        self._said.close()
        how = f"ended with status {self._process.returncode}"
        return f"{how}: {lines[-1]}" if lines else how
