"""Zygotes of the tests' stages, forked from one process that has imported what all of them have.

An interpreter takes half a second of processor time to import the harness's half of a zygote, and
tests start hundreds. A stage of a test asks this process for its zygote instead. Each worker of
pytest has its own, which ends with it.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from killpoint.runner.processes import zygote_client

_ZYGOTE = "killpoint.runner.processes.zygote"
_IMPORTED = (_ZYGOTE, "numpy", "zmq")
_REQUEST = 1 << 20

RUNNING: set[int] = set()
"""Process ids of the templates of this process, which are no test's."""


class ForkedZygote:
    """What :class:`killpoint.runner.processes.zygote_client.Zygote` wants to know of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> None:
        """Do nothing: the template has reaped it once its descriptor says that it has ended."""


class Template:
    """The process that zygotes are forked from.

    There are two: one has torch imported, and starts with the first zygote that is to have it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: dict[str, socket.socket] = {}

    def install(self) -> None:
        """Start it, and have every zygote of this process forked from it.

        One that is to have torch, and would be forked from another of its target, is so, too.
        """
        begin = zygote_client.Zygote.__init__
        self._start_anew = zygote_client._started

        def begun(
            self: zygote_client.Zygote,
            spec: str,
            root: Path,
            preloads: Sequence[str] = (),
            *,
            of: zygote_client.Zygote | None = None,
        ) -> None:
            begin(self, spec, root, preloads, of=None if "torch" in preloads else of)

        zygote_client.Zygote.__init__ = begun  # type: ignore[method-assign] # for the tests alone
        zygote_client._started = self.started  # type: ignore[assignment] # it has the same methods
        if not _measured():
            self._sockets[""] = _start("")

    def started(
        self, spec: str, root: Path, preloads: Sequence[str], fd: int
    ) -> ForkedZygote | subprocess.Popen[bytes]:
        """Fork a zygote, as ``zygote_client`` starts one with an interpreter of its own.

        Raises:
            OSError: there is none.
        """
        if _measured():
            return self._start_anew(spec, root, preloads, fd)  # to be measured from its begin
        request = {
            "arguments": [spec, str(root), *preloads],
            "environment": zygote_client.environment(),
            "path": sys.path,
            "cwd": str(Path.cwd()),
        }
        fds = array.array("i", [fd, 2])
        with self._lock:
            more = "torch" if "torch" in preloads else ""
            if more not in self._sockets:
                self._sockets[more] = _start(more)
            asked = self._sockets[more]
            try:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
                asked.sendmsg([json.dumps(request).encode()], rights)
                answer = asked.recv(64)
            except BaseException:  # the answer would be taken for that to the next request
                self._sockets.pop(more).close()
                raise
        if not answer:
            raise OSError("the template of zygotes is gone")
        return ForkedZygote(int(answer))


def _measured() -> bool:
    return any(name.startswith("COVERAGE_PROCESS") for name in os.environ)


def _start(more: str) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "zygote_template", str(theirs.fileno()), *filter(None, [more])],
        pass_fds=[theirs.fileno()],
        env=zygote_client.environment(),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    RUNNING.add(process.pid)
    theirs.close()
    mine = os.getpid()

    def end() -> None:
        ours.close()
        if os.getpid() == mine:
            process.wait()

    atexit.register(end)
    return ours


def _serve(own: socket.socket, more: Sequence[str]) -> None:
    for name in (*_IMPORTED, *more):
        importlib.import_module(name)
    del sys.modules[_ZYGOTE]  # it is run as a program
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who ends is reaped
    gc.collect()
    gc.freeze()
    while True:
        data, control, _, _ = own.recvmsg(_REQUEST, socket.CMSG_SPACE(8))
        if not data:
            return
        fds = array.array("i")
        for _, _, rights in control:
            fds.frombytes(rights)
        pid = os.fork()
        if pid == 0:
            own.close()
            _become(json.loads(data), *fds)
            return
        for fd in fds:
            os.close(fd)
        own.send(str(pid).encode())


def _become(request: dict[str, Any], channel: int, messages: int) -> None:
    """Be what ``python -m killpoint.runner.processes.zygote`` is with those arguments."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(messages, 1)
    os.dup2(messages, 2)
    os.close(messages)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    sys.path[:] = [request["cwd"], *request["path"]]
    importlib.invalidate_caches()
    sys.argv[1:] = [str(channel), *request["arguments"]]
    gc.unfreeze()
    runpy.run_module(_ZYGOTE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
