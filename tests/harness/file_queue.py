"""A tree that can be judged as vLLM's: a queue that keeps each message as a file in a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FILE = Path("vllm", "distributed", "device_communicators", "shm_broadcast.py")

QUEUE = """
import os, pickle, tempfile, time

class MessageQueue:
    buffer = None

    def __init__(self, n_reader=1, n_local_reader=1, max_chunk_bytes=1, max_chunks=1, folder=None):
        self.folder, self.count = folder or tempfile.mkdtemp(), 0

    def export_handle(self):
        return self.folder

    @staticmethod
    def create_from_handle(handle, rank):
        return MessageQueue(folder=handle)

    def wait_until_ready(self):
        pass

    def path(self):
        self.count += 1
        return os.path.join(self.folder, str(self.count))

    def enqueue(self, obj, timeout=None):
        path = self.path()
        with open(path + ".new", "wb") as file:
            pickle.dump(obj, file)
        os.rename(path + ".new", path)

    def dequeue(self, timeout=None):
        end, path = time.monotonic() + (timeout or 60), self.path()
        while not os.path.exists(path):
            if time.monotonic() > end:
                raise TimeoutError(path)
        with open(path, "rb") as file:
            return pickle.load(file)
"""
AGAIN = QUEUE.replace("return pickle", "self.count -= self.count > 1; return pickle")
"""Its readers get the second message again and again."""
BROKEN = "class MessageQueue:\n"
"""No interpreter takes it."""

SCENARIO = """
case = "Q1/three-small"
judges = ["Q1"]
steps = [
    { do = "make" },
    { do = "attach" },
    { do = "ready", timeout = 10.0 },
    { do = "wait", within = 15.0 },
    { do = "send", messages = [{ repeat = 3 }], timeout = 2.0 },
    { do = "receive", count = 3, timeout = 5.0 },
    { do = "wait", within = 20.0 },
]
shape = { readers = 1 }
"""


class Repository:
    """A git repository of such trees."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / FILE).parent.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def commit(self, subject: str, queue: str) -> None:
        """Keep a version of the queue; the subject makes it another one than before."""
        (self.root / FILE).write_text(f"{queue}\n# {subject}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", subject)

    def git(self, *words: str) -> str:
        """What git prints; no settings of the machine's are read."""
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(self.root), *who, *words]
        environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull}
        environment |= {"GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=30
        )
        return done.stdout

    def seen(self) -> tuple[str, ...]:
        """What a bisection must leave as it was."""
        asked = ("worktree", "list"), ("status", "--porcelain"), ("show-ref",), ("branch", "--list")
        return tuple(self.git(*words) for words in asked)
