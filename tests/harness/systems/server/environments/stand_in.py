"""A stand-in for an engine: what the zygote imports, and a server that says what it has."""

import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD)


def preload() -> None:
    """Import "the engine", as asked for by the environment."""
    if os.environ.get("STAND_IN") == "thread":
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    if os.environ.get("STAND_IN") == "cuda":
        cuda = types.SimpleNamespace(is_initialized=lambda: True)
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)  # type: ignore[assignment] # for one
    if os.environ.get("STAND_IN") == "interrupt":
        _interrupt_at_rename()
    tempfile.gettempdir()  # which remembers it
    importlib.import_module("xml.dom.minidom")


def _interrupt_at_rename() -> None:
    """Have the zygote interrupted at the moment in which its socket gets its name."""
    rename = Path.rename

    def renamed(path: Path, to: Path) -> Path:
        rename(path, to)
        os.kill(os.getpid(), signal.SIGINT)
        return to

    Path.rename = renamed  # type: ignore[method-assign, assignment] # in this process alone


def serve() -> None:
    """Say what it finds, then do what its arguments say."""
    sys.stdout.write(f"{json.dumps(_found())}\n")  # at once: others write to the same log
    sys.stdout.flush()
    act = sys.argv[1]
    if act == "exit":
        sys.exit(int(sys.argv[2]))
    if act == "raise":
        raise ValueError("a server's own error")
    if act == "orphan" and os.fork() == 0:
        os.setsid()
        signal.pause()
    if act == "write":
        one, other = socket.socketpair()
        other.close()
        try:
            one.send(b"to nobody")
        except BrokenPipeError:
            sys.exit(5)
    signal.pause()


def _handler(number: signal.Signals) -> str:
    found = signal.getsignal(number)
    return found.name if isinstance(found, signal.Handlers) else found.__name__


def _found() -> dict[str, object]:
    Path("/dev/shm/stand-in").write_text("here")
    return {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "argv": sys.argv,
        "env": dict(os.environ),
        "cwd": str(Path.cwd()),
        "imported": "xml.dom.minidom" in sys.modules,
        "fds": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir()),
        "standard": [str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in range(3)],
        "signals": {each.name: _handler(each) for each in _SIGNALS},
        "wakeup": signal.set_wakeup_fd(-1),
        "path": sys.path,
        "tempdir": tempfile.gettempdir(),
        "shm": sorted(path.name for path in Path("/dev/shm").iterdir()),
    }
