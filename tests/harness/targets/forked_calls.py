"""Processes that may import any vLLM, forked from one that has torch imported and none of it.

Torch takes two seconds to import, and all of them need it.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_IMPORTED = ("numpy", "torch", "zmq", "killpoint.targets.vllm.adapter")
_WITHIN = 60.0


class ForkedCalls:
    """A process with all of them below it; it starts with the first call."""

    def __init__(self) -> None:
        self._process: Any = None

    def call(self, role: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a process of its own, and take its result."""
        if self._process is None:
            self._start()
        self._ours.send((role, arguments, dict(os.environ)))
        if not self._ours.poll(_WITHIN):
            self.close()
            raise AssertionError(f"{role.__name__} did not end within {_WITHIN:g} s")
        worked, result = self._ours.recv()
        assert worked, result
        return result

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_nurse, args=(theirs,))
        self._process.start()
        theirs.close()

    def close(self) -> None:
        """End it, and whatever it is still busy with."""
        if self._process is not None:
            self._ours.close()
            self._process.join(5)
            if self._process.is_alive():
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.join()
            self._process = None


def _nurse(pipe: Connection) -> None:
    os.setsid()
    for name in _IMPORTED:
        importlib.import_module(name)
    while True:
        try:
            role, arguments, environment = pipe.recv()
        except EOFError:
            return
        pid = os.fork()
        if pid == 0:
            os.environ.clear()
            os.environ.update(environment)
            _serve(role, arguments, pipe)
        status = os.waitpid(pid, 0)[1]
        if status:
            pipe.send((False, f"{role.__name__} ended with status {status}, without a word"))


def _serve(role: Callable[..., Any], arguments: tuple[Any, ...], pipe: Connection) -> None:
    try:
        pipe.send((True, role(*arguments)))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    finally:
        os._exit(0)
