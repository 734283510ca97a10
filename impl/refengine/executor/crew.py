"""The workers of a pool as their parent keeps them: process, link, death pipe, what they said."""

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..keeping import keep
from . import birth, hangup, page
from .birth import Birth
from .children import Process
from .held import End, hold
from .link import pair
from .settings import PoolSettings, WorkerSpec
from .starting import Start, start_method


@dataclass(frozen=True)
class Shape:
    """How many workers, and how they are arranged."""

    world_size: int
    tensor_parallel: int
    device: str

    @property
    def output_rank(self) -> int:
        """Whose result is the model's: the first rank of the last stage."""
        return self.world_size - self.tensor_parallel


class Member:
    """One worker. Its link and death pipe exist before it does, and end it if it gets lost."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.link, self.theirs = pair()
        hold(self.link)
        self.hears_death, alive = (End(fd) for fd in os.pipe2(os.O_CLOEXEC))
        self.alive = alive
        hold(self.alive)
        self.started: list[Process] = []
        self.handle: Any = None
        """Of its queue of replies, once it is READY."""
        self.complaint = ""
        """Why it did not become READY, in its own words."""
        self.farewell = ""
        """Why it left by itself."""

    @property
    def process(self) -> Process | None:
        """Its process, once there is one."""
        return self.started[0] if self.started else None

    @property
    def pid(self) -> int:
        """0 before there is a process."""
        return self.started[0].pid if self.started else 0

    def start(self, start: Start, about: Birth, shared: Sequence[int]) -> None:
        """Bring it to life."""
        own = End(_written(about))
        hold(own)
        try:
            told = self.link.say("born", own.fileno(), self.hears_death.fileno(), *shared)
            assert told, "a fresh link has room"
            keep(self.started, start, self.theirs, f"worker-{self.rank}")
            hangup.send_at_hangup(self.hears_death.fileno(), self.started[0].pid)
        finally:
            own.close()
            self.theirs.close()
            self.hears_death.close()

    def close(self) -> None:
        """Let go of everything; a worker that still lives ends of it."""
        for held in (self.link, self.theirs, self.alive, self.hears_death, *self.started):
            held.close()


class Crew:
    """All of them, in the order of their ranks."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.members: list[Member] = []
        self._page_fd = End(page.new_file(shape.world_size))
        self._store = End(os.memfd_create("refengine-store", os.MFD_CLOEXEC))
        ringing = os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self._bells = [End(os.eventfd(0, ringing)) for _ in range(shape.world_size)]
        for end in (self._page_fd, self._store, *self._bells):
            hold(end)
        self.page = page.Page(self._page_fd.fileno(), shape.world_size)

    def start(self, spec: WorkerSpec, settings: PoolSettings) -> None:
        """Start every worker; they are not READY yet."""
        start, shape = start_method(settings), self.shape
        around, main = birth.surroundings(), birth.main_program(spec.worker)
        worker = pickle.dumps(spec)
        for rank in range(shape.world_size):
            about = Birth(
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
                **around,
            )
            keep(self.members, Member, rank)
            shared = self._page_fd.fileno(), self._store.fileno()
            self.members[rank].start(start, about, (*shared, *self._bells_of(rank)))

    def pids(self) -> list[int]:
        """By rank."""
        return [member.pid for member in self.members]

    def close(self) -> None:
        """Let go of all of them."""
        for member in self.members:
            member.close()
        for end in (self._page_fd, self._store, *self._bells):
            end.close()

    def _bells_of(self, rank: int) -> list[int]:
        """Of the ranks of its stage; none where it is alone there."""
        size = self.shape.tensor_parallel
        first = rank // size * size
        return [bell.fileno() for bell in self._bells[first : first + size]] if size > 1 else []


def _written(about: Birth) -> int:
    """A descriptor of a file without a name that holds it."""
    fd = os.memfd_create("refengine-birth", os.MFD_CLOEXEC)
    data = memoryview(pickle.dumps(about))
    while data:
        data = data[os.write(fd, data) :]
    return fd
