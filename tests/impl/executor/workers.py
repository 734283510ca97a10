"""A worker class for tests, and pools of it."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from refengine.executor import Executor, PoolSettings, WorkerContext

GRACE = 0.3
CHUNK = 4096
_WORKS_AT_MOST = 60.0
"""Seconds of a method that waits for a file."""


class Unsendable:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error


class Unreadable:
    """Fails where it is decoded."""

    def __init__(self, *what: Any) -> None:
        self.what = what

    def __reduce__(self) -> Any:
        return _refuse, self.what


def _refuse(*what: Any) -> Any:
    if what and what[0] == "exit":
        sys.exit(4)
    raise ValueError("it cannot be read")


class Deferred:
    """A result that is made in the output thread."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.get_output = work


class Stuck:
    """Sits in native code that keeps the interpreter's lock."""

    def __init__(self) -> None:
        self.into = os.pipe()

    def sit(self) -> None:
        ctypes.PyDLL(None).read(self.into[0], ctypes.create_string_buffer(8), 8)


class Worker:
    def __init__(
        self, context: WorkerContext, fail: str = "", at: int = 0, marks: str = ""
    ) -> None:
        self.context, self.fail, self.at = context, fail, at
        self.marks = Path(marks) if marks else None
        self._failing("making")

    def init_device(self) -> None:
        self._failing("device")

    def load_model(self) -> None:
        self._failing("loading")

    def _failing(self, where: str) -> None:
        if self.fail.partition(":")[0] != where or self.context.rank != self.at:
            return
        self.mark(where)
        how = self.fail.partition(":")[2]
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "exit":
            sys.exit(3)
        elif how == "sit":
            Stuck().sit()
        elif how == "wait":
            threading.Event().wait()
        raise LookupError(f"no weights while {where}")

    def shutdown(self) -> None:
        self.mark("left")

    def mark(self, what: str) -> None:
        if self.marks is not None:
            path = self.marks / f"{what}-{self.context.rank}"
            new = self.marks.parent / f"{self.marks.name}-{os.getpid()}"
            new.write_text(str(os.getpid()))
            new.rename(path)  # whole or not at all

    # -- methods ----------------------------------------------------------------------------

    def echo(self, *args: Any, **kwargs: Any) -> Any:
        return self.context.rank, args, kwargs

    def pid(self) -> int:
        return os.getpid()

    def fill(self, nbytes: int) -> bytes:
        return bytes([self.context.rank + 1]) * nbytes

    def fail_with(self, error: BaseException, rank: int | None = None) -> int:
        if rank in (None, self.context.rank):
            raise error
        return self.context.rank

    def leave(self) -> None:
        sys.exit(5)

    def unsendable(self) -> Any:
        return Unsendable(TypeError("not this one"))

    def unsendable_exit(self) -> Any:
        return Unsendable(SystemExit(6))

    def unreadable(self) -> Any:
        return Unreadable()

    def deferred(self, error: BaseException | None = None) -> Any:
        def work() -> str:
            if error is not None:
                raise error
            return threading.current_thread().name

        return Deferred(work)

    def made_once(self, path: str) -> Any:
        """A result that is made as soon as there is that file."""
        return Deferred(lambda: "made" if self.wait_for(path) >= 0 else "")

    def touch(self, path: str) -> int:
        Path(path).write_text("")
        return self.context.rank

    def deaf_to_exit(self, seconds: float) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                time.sleep(0.01)  # a method at work: what it does is none of the pool's business
            except BaseException:
                return "swallowed"
        return "undisturbed"

    def wait_for(self, path: str, rank: int | None = None) -> int:
        """Work until there is that file."""
        if rank in (None, self.context.rank):
            self.mark("waiting")
            end = time.monotonic() + _WORKS_AT_MOST
            while not Path(path).exists():
                if time.monotonic() > end:
                    raise TimeoutError(f"worker {self.context.rank} waited for {path} in vain")
                time.sleep(0.001)
        return self.context.rank

    def sit(self, rank: int | None = None) -> None:
        if rank in (None, self.context.rank):
            self.mark("sitting")
            Stuck().sit()

    def spin(self, rank: int | None = None) -> None:
        if rank in (None, self.context.rank):
            self.mark("spinning")
            while True:
                pass

    def die(self, rank: int = 0, number: int = signal.SIGKILL) -> int:
        if rank == self.context.rank:
            os.kill(os.getpid(), number)
        return self.context.rank

    def hard_exit(self, status: int) -> None:
        if self.context.rank == 0:
            os._exit(status)

    def child(self, command: list[str]) -> int:
        return subprocess.Popen(command).pid

    def descriptors(self) -> dict[int, str]:
        found = {}
        for path in Path("/proc/self/fd").iterdir():
            try:
                found[int(path.name)] = str(path.readlink())
            except OSError:
                continue
        return found

    def locked(self, path: str) -> bool:
        """Whether nobody else was inside at the same time."""
        inside = Path(path)
        with self.context.lock:
            alone = not inside.exists()
            inside.write_text("")
            time.sleep(0.02)
            inside.unlink()
        return alone

    def environment(self, name: str) -> str | None:
        return os.environ.get(name)

    def title(self) -> str:
        return Path("/proc/self/comm").read_text().strip()

    def execute_model(self, step: Any) -> Any:
        if isinstance(step, str):
            return self.context.rank, step
        return SimpleNamespace(
            rank=self.context.rank, finished_sending=set(step[self.context.rank])
        )

    def take_draft_token_ids(self) -> Any:
        return self.context.rank, "drafts"

    def execute_dummy_batch(self) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, flush=True)


def pool(
    workers: int = 2, start: Any = "fork", options: dict[str, Any] | None = None, **more: Any
) -> Executor:
    callback = more.pop("on_failure", None)
    tensor = more.pop("tensor_parallel", None)
    given = {
        "start": start,
        "preload": (),
        "start_timeout": 20.0,
        "grace": GRACE,
        "term_grace": GRACE,
        "max_chunk_bytes": CHUNK,
        "max_chunks": 4,
        "log_prefix": False,
    }
    settings = PoolSettings(**(given | more))
    return Executor(
        Worker, workers, tensor, options=options, settings=settings, on_failure=callback
    )
