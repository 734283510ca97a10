"""A stand-in for an engine: what the zygote imports, and a server that says what it has."""

import importlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


def preload() -> None:
    """Import "the engine", as asked for by the environment."""
    if os.environ.get("STAND_IN") == "thread":
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    importlib.import_module("xml.dom.minidom")


def serve() -> None:
    """Say what it finds, then do what its arguments say."""
    print(json.dumps(_found()), flush=True)
    act = sys.argv[1]
    if act == "exit":
        sys.exit(int(sys.argv[2]))
    if act == "raise":
        raise ValueError("a server's own error")
    if act == "orphan" and os.fork() == 0:
        os.setsid()
        signal.pause()
    if act == "leave":
        os._exit(0)
    signal.pause()


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
        "usual": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL,
        "shm": sorted(path.name for path in Path("/dev/shm").iterdir()),
    }
