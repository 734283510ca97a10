"""The parameters of a new worker, and the environment that it takes over from its parent."""

import io
import mmap
import os
import pickle
import sys
import tempfile
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import Any

from .nodes.settings import NodeContext
from .settings import WorkerSpec


@dataclass(frozen=True)
class WorkerInit:
    """Parameters of one worker, from its parent. `worker` is a pickled `WorkerSpec`.

    The spec is decoded after the rest has been applied: a class of the parent's main program, or of
    a folder that only the parent's path has, can be found only then.
    """

    rank: int
    world_size: int
    tensor_parallel: int
    device: str
    environ: dict[str, str]
    folder: str
    path: list[str]
    temporary: str
    main: dict[str, Any]
    worker: bytes
    output_thread: bool
    max_chunk_bytes: int
    max_chunks: int
    log_prefix: bool
    node: NodeContext | None = None

    def apply(self) -> WorkerSpec:
        """Take over the parent's environment, and return the decoded spec."""
        apply_environment(self.environ, self.folder, self.path, self.temporary)
        if self.main:
            spawn.prepare(self.main)
        return pickle.loads(self.worker)


def parent_environment() -> dict[str, Any]:
    """Return the fields that are the same for every worker that this process starts now."""
    try:
        folder = str(Path.cwd())
    except OSError:
        folder = ""  # it was removed
    return {
        "environ": with_thread_limit(dict(os.environ)),
        "folder": folder,
        "path": list(sys.path),
        "temporary": tempfile.gettempdir(),
    }


def apply_environment(
    environ: dict[str, str], folder: str, path: list[str], temporary: str
) -> None:
    """Take over what `parent_environment` returned in the parent."""
    os.environ.clear()
    os.environ.update(environ)
    if folder:
        os.chdir(folder)
    sys.path[:] = path
    # Passed, not searched for: a search that is killed leaves the file that it tried to write.
    tempfile.tempdir = temporary


def write_init(init: object) -> io.FileIO:
    """Write it to a file without a name, which closes with the last reference to it."""
    file = io.FileIO(os.memfd_create("refengine-birth", os.MFD_CLOEXEC), "w")
    data = memoryview(pickle.dumps(init))
    while data:
        data = data[file.write(data) :]
    return file


def read_init(fd: int) -> Any:
    """Return what was written to such a file, and close this descriptor of it."""
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as written:
        os.close(fd)
        return pickle.loads(written)


def with_thread_limit(environ: dict[str, str]) -> dict[str, str]:
    """Return the environment with one OpenMP thread per worker, unless it says otherwise."""
    return {"OMP_NUM_THREADS": "1"} | environ


def main_program(worker: str | type) -> dict[str, Any]:
    """Return how to find the parent's main program again, for a worker class that stands in it."""
    module = worker.split(":")[0] if isinstance(worker, str) else worker.__module__
    if module != "__main__":
        return {}
    found = spawn.get_preparation_data("worker")
    wanted = ("init_main_from_name", "init_main_from_path")
    return {key: value for key, value in found.items() if key in wanted}
