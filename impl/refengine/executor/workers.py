"""The workers of a pool in their parent: process, link, death pipe, and what each reported."""

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base.cleanup import append_atomically
from ..base.fds import Fd, own
from .nodes.settings import NodeContext
from .process import Process, ProgressBoard, link_pair, new_progress_file, send_signal_at_hangup
from .settings import PoolSettings, WorkerSpec
from .start_methods import StartFunction, start_method
from .worker_init import WorkerInit, main_program, parent_environment, write_init


@dataclass(frozen=True)
class PoolShape:
    """Number of workers, and their arrangement."""

    world_size: int
    tensor_parallel: int
    device: str

    @property
    def output_rank(self) -> int:
        """Rank whose result is the model's: the first one of the last stage."""
        return self.world_size - self.tensor_parallel


class WorkerHandle:
    """One worker. Its link and death pipe exist before its process, and end it if it gets lost."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.link, self.child_link = link_pair()
        own(self.link)
        self.death_pipe, death_pipe_writer = (Fd(fd) for fd in os.pipe2(os.O_CLOEXEC))
        self.death_pipe_writer = death_pipe_writer
        own(self.death_pipe_writer)
        self.started: list[Process] = []
        self.replies_handle: Any = None
        """Handle of the worker's queue of replies, once it is READY."""
        self.start_error = ""
        """Reason for which the worker did not become READY, in its own words."""
        self.exit_reason = ""
        """Reason for which the worker left by itself."""

    @property
    def process(self) -> Process | None:
        """The worker's process, once there is one."""
        return self.started[0] if self.started else None

    @property
    def pid(self) -> int:
        """Process id; 0 before there is a process."""
        return self.started[0].pid if self.started else 0

    def start(self, start: StartFunction, init: WorkerInit, shared: Sequence[int]) -> None:
        """Start the process, with the descriptors that it shares with other workers."""
        init_file = write_init(init)
        own(init_file)
        try:
            sent = self.link.send("born", init_file.fileno(), self.death_pipe.fileno(), *shared)
            assert sent, "a fresh link has room"
            append_atomically(self.started, start, self.child_link, f"worker-{self.rank}")
            send_signal_at_hangup(self.death_pipe.fileno(), self.started[0].pid)
        finally:
            init_file.close()
            self.child_link.close()
            self.death_pipe.close()

    def close(self) -> None:
        """Close every descriptor; a worker that still lives ends of it."""
        for held in (
            self.link,
            self.child_link,
            self.death_pipe_writer,
            self.death_pipe,
            *self.started,
        ):
            held.close()


class WorkerSet:
    """The workers of a pool on one node, in the order of their ranks, and the files they share.

    Args:
        ranks: ranks of this node; None: every rank of the pool.
    """

    def __init__(self, shape: PoolShape, ranks: range | None = None) -> None:
        self.shape = shape
        self.ranks = range(shape.world_size) if ranks is None else ranks
        self.handles: list[WorkerHandle] = []
        self._progress_fd = Fd(new_progress_file(shape.world_size))
        self._store = Fd(os.memfd_create("refengine-store", os.MFD_CLOEXEC))
        flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self._wakeups = [Fd(os.eventfd(0, flags)) for _ in self.ranks]
        for fd in (self._progress_fd, self._store, *self._wakeups):
            own(fd)
        self.progress = ProgressBoard(self._progress_fd.fileno(), shape.world_size)

    def start(
        self, spec: WorkerSpec, settings: PoolSettings, nodes: Sequence[NodeContext] = ()
    ) -> None:
        """Start every worker, without waiting until it is READY.

        Args:
            nodes: context of each of these workers, if the pool runs on two nodes.
        """
        start, shape = start_method(settings), self.shape
        environment, main = parent_environment(), main_program(spec.worker)
        worker = pickle.dumps(spec)
        for place, rank in enumerate(self.ranks):
            init = WorkerInit(
                rank=rank,
                world_size=shape.world_size,
                tensor_parallel=shape.tensor_parallel,
                device=shape.device,
                main=main,
                worker=worker,
                output_thread=settings.output_thread,
                max_chunk_bytes=settings.max_chunk_bytes,
                max_chunks=settings.max_chunks,
                log_prefix=settings.log_prefix,
                node=nodes[place] if nodes else None,
                **environment,
            )
            append_atomically(self.handles, WorkerHandle, rank)
            shared = self._progress_fd.fileno(), self._store.fileno()
            self.handles[place].start(start, init, (*shared, *self._wakeups_of(rank)))

    def pids(self) -> list[int]:
        """Return the process ids by rank."""
        return [worker.pid for worker in self.handles]

    def close(self) -> None:
        """Close the descriptors of every worker, and those that they share."""
        for worker in self.handles:
            worker.close()
        for fd in (self._progress_fd, self._store, *self._wakeups):
            fd.close()

    def _wakeups_of(self, rank: int) -> list[int]:
        """Return the wake-ups of all ranks of a rank's stage here; none where it is alone there."""
        size = self.shape.tensor_parallel
        first = rank // size * size
        wakeups = zip(self.ranks, self._wakeups, strict=True)
        found = [fd.fileno() for each, fd in wakeups if first <= each < first + size]
        return found if len(found) > 1 else []
