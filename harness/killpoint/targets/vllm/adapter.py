"""vLLM's message queue as a target: one adapter for all releases, by the features of each."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from threading import Event
from types import CodeType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import zmq

from killpoint.errors import CannotWork
from killpoint.interfaces import SimulatedEnvironment
from killpoint.targets.disclaimer import Disclaimer
from killpoint.targets.protocol import BlackBox, Capability, Outcome, StoreSink, UnsupportedByTarget
from killpoint.targets.shapes import QueueShape
from killpoint.targets.vllm import contract, coordinator, coordinator_process, pool, simulated, wire
from killpoint.targets.vllm.fetch.specs import find
from killpoint.targets.vllm.groups import VllmGroups
from killpoint.targets.vllm.loading import module_loader, pipe_stubs, pool_stubs, stubs
from killpoint.targets.vllm.pipe import VllmPipes
from killpoint.targets.vllm.pool import VllmPools
from killpoint.targets.vllm.pool_starts import WorkerEnvironment
from killpoint.targets.vllm.project import VLLM
from killpoint.targets.vllm.sources import EXECUTOR, Sources
from killpoint.targets.vllm.stores import Layout, Watched, view_of


class VllmTarget(
    VllmGroups,
    VllmPools,
    VllmPipes,
    coordinator.VllmCoordinators,
    coordinator_process.VllmCoordinatorProcesses,
):
    """One copy of vLLM's queue, readers local and remote, its group, pool and pipe, unmodified.

    Ends are vLLM's own ``MessageQueue`` objects. ``cancel`` lasts: an end that was cancelled
    stays cancelled for calls that would have to wait, as for vLLM's own users.
    """

    name = "vllm"
    _replaced: tuple[str, ...] = stubs.NOTES

    def __init__(self, sources: Sources) -> None:
        self.version = sources.version
        self.sources = sources
        self.features = sources.features()
        self.capabilities = _capabilities(self)
        self._files = frozenset(str(path) for path in sources.modules().values())
        self._lacks: tuple[str, ...] = ()
        self._module: ModuleType | None = None
        self._sink: StoreSink | None = None
        self._events: WeakKeyDictionary[Any, Event] = WeakKeyDictionary()
        """Event that ends a reader's waiting calls, in releases whose ``dequeue`` takes one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Origin of the code, and the parts of vLLM that were replaced or switched off."""
        of_pool = pool_stubs.NOTES if "pool" in self.capabilities else ()
        of_pipe = pipe_stubs.NOTES if "pipe" in self.capabilities else ()
        return (
            f"{self.sources.spec}: {self.sources.origin}",
            *self.sources.switched_off(),
            *self._replaced,
            *of_pool,
            *of_pipe,
            *(coordinator.NOTES if "coordinator" in self.capabilities else ()),
            *(coordinator_process.NOTES if "coordinator_process" in self.capabilities else ()),
            *self._lacks,
        )

    @property
    def own_files(self) -> dict[str, str]:
        """Places of the files that are served, by their path in the package."""
        home = self.sources.root / self.sources.folder.parts[0]
        return {path.relative_to(home).as_posix(): str(path) for path in self.sources.files()}

    @property
    def disclaimers(self) -> tuple[Disclaimer, ...]:
        """Promises that vLLM's documents disclaim."""
        return contract.disclaimers(self.version)

    def load(self) -> None:
        """Import the queue among stand-ins; once in a process.

        Raises:
            CannotWork: a module that it needs is missing, or a file was changed.
        """
        if self._module is None:
            with _one_native_thread():
                self._module = module_loader.serve(self.sources, self._stood_in())
                self._load_executor()
                self._load_pipe()

    def _load_executor(self) -> None:
        """Import the pool's half; a release whose executor lacks a stand-in has no pool."""
        if self.features.pool is None:
            return
        try:
            importlib.import_module(EXECUTOR)
        except Exception as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            self._lacks = (f"its executor cannot be imported, so it has no pool here: {what}",)
            self.capabilities -= {"pool"}

    def _stood_in(self) -> module_loader.Contents:
        there = self.features.pool is not None
        found = pool_stubs.modules() if there else stubs.modules()
        if self.features.pipe:
            for name, contents in pipe_stubs.modules().items():
                found.setdefault(name, {}).update(contents)
        return found

    @property
    def module(self) -> Any:
        """The served module, once it is loaded."""
        if self._module is None:
            raise CannotWork(f"{self.sources.spec} was not loaded")
        return self._module

    def make(self, shape: QueueShape) -> Any:
        """Make the writer's end."""
        if shape.max_buffers is not None or shape.max_buffer_bytes is not None:
            raise UnsupportedByTarget("vLLM's format limits cannot be set")
        if shape.remote and not self.features.remote:
            raise UnsupportedByTarget(f"vllm {self.version} has no remote readers")
        end = self.module.MessageQueue(
            n_reader=shape.readers,
            n_local_reader=shape.readers - shape.remote,
            max_chunk_bytes=shape.chunk_bytes,
            max_chunks=shape.chunks,
            **({"connect_ip": shape.host} if shape.remote else {}),
        )
        self._watch(end)
        return end

    def handle(self, end: Any) -> Any:
        """Return the handle that vLLM's own users pass on."""
        return end.export_handle()

    def attach(self, handle: Any, rank: int) -> Any:
        """Make the end of reader ``rank``."""
        end = self.module.MessageQueue.create_from_handle(handle, rank)
        if self.features.cancel_event:
            self._events[end] = Event()
        self._watch(end)
        return end

    def ready(self, end: Any, timeout: float | None) -> None:
        """Do the handshake, for which no release has a deadline unless ``deaf-start`` is off."""
        takes = "timeout" in inspect.signature(end.wait_until_ready).parameters
        end.wait_until_ready(**({"timeout": timeout} if takes else {}))

    def send(self, end: Any, obj: Any, timeout: float | None) -> None:
        """Enqueue."""
        end.enqueue(obj, **self._deadline(timeout))

    def receive(self, end: Any, timeout: float | None) -> Any:
        """Dequeue."""
        return end.dequeue(**self._deadline(timeout), **self._event(end))

    def close(self, end: Any) -> None:
        """Do nothing: a queue of vLLM's is closed by dropping it; ``shutdown`` wakes readers."""
        self._events.pop(end, None)

    def classify(self, error: BaseException) -> Outcome:
        """Return the outcome of vLLM's exceptions: a timeout, or its own word for cancelled."""
        told = pool.word(error)
        if told is not None:
            return told
        if isinstance(error, TimeoutError | zmq.Again) or _ran_out(error):
            return "timeout"
        if isinstance(error, RuntimeError) and str(error) == "cancelled":
            return "cancelled"
        return "error"

    def cancel(self, end: Any) -> None:
        """Set the event that its calls were given, or call ``shutdown()`` where there is that."""
        if self.features.shutdown:
            end.shutdown()
            return
        if end not in self._events:
            raise UnsupportedByTarget(
                f"{self.name} {self.version} has no way to end this end's calls"
            )
        self._events[end].set()

    def addresses(self, handle: Any) -> list[str]:
        """Return the address that remote readers subscribe to, if there is one."""
        return wire.addresses(handle)

    def rerouted(self, handle: Any, table: dict[str, str]) -> Any:
        """Return the handle with other addresses in it."""
        return wire.rerouted(handle, table)

    def secrets(self, handle: Any) -> list[bytes]:
        """Return none: every peer that reaches the port may subscribe."""
        del handle
        return []

    def ring_write(self, end: Any, timeout: float | None) -> AbstractContextManager[memoryview]:
        """Make the queue's own step below ``enqueue``."""
        return end.acquire_write(**self._deadline(timeout))

    def ring_read(self, end: Any, timeout: float | None) -> AbstractContextManager[memoryview]:
        """Make the queue's own step below ``dequeue``."""
        return end.acquire_read(**self._deadline(timeout), **self._event(end))

    def ring_attach(self, shape: QueueShape, name: str) -> Any:
        """Open a ring by name, and look at the first slot's flags."""
        ring = self.module.ShmRingBuffer(shape.readers, shape.chunk_bytes, shape.chunks, name)
        with ring.get_metadata(0) as flags:
            bytes(flags)
        return ring

    def flags(self, end: Any, slot: int) -> bytes:
        """Return one slot's flags, read past vLLM and past the watch."""
        return bytes(_segment(end).buf[_layout(end).slot_flags(slot)])

    def position(self, end: Any) -> int:
        """Return the slot that comes next for this end."""
        return int(end.current_idx)

    def overflowed(self, end: Any, slot: int) -> bool:
        """Return whether the slot's first byte is 1: its payload goes through the socket."""
        return bool(_segment(end).buf[slot * _layout(end).chunk_bytes] == 1)

    def observe(self, sink: StoreSink) -> None:
        """Have ends made or attached from now on report their stores. The file is untouched."""
        self._sink = sink
        self.module.memoryview = view_of

    @contextmanager
    def simulated(self, environment: SimulatedEnvironment) -> Generator[BlackBox]:
        """Give the same calls, with the module's globals rebound."""
        with simulated.rebound(self.module, environment):
            yield self

    def is_own_code(self, code: CodeType) -> bool:
        """Return whether it is code of a file that was served."""
        return code.co_filename in self._files

    def _watch(self, end: Any) -> None:
        ring = end.buffer
        held = getattr(ring, "shared_memory", None)
        if self._sink is not None and held is not None:
            ring.shared_memory = Watched(_segment(end), _layout(end), self._sink)
        elif isinstance(held, simulated.Named):
            held.call(_layout(end).name)

    def _deadline(self, timeout: float | None) -> dict[str, Any]:
        if self.features.deadlines:
            return {"timeout": timeout}
        if timeout is not None:
            raise UnsupportedByTarget(f"{self.name} {self.version} has no deadlines")
        return {}

    def _event(self, end: Any) -> dict[str, Event]:
        event = self._events.get(end)
        return {} if event is None else {"cancel": event}


def serve_again(arrival: WorkerEnvironment) -> None:
    """Serve the release in a worker that began without it, with queues of this size."""
    VllmTarget(find(arrival.spec, VLLM)).load()
    pool.sized(arrival.chunk_bytes, arrival.chunks)


def _ran_out(error: BaseException) -> bool:
    """Return whether it is a timeout of the store or of a barrier: these have no own type."""
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("timed out" in text or "wait timeout" in text)


@contextmanager
def _one_native_thread() -> Generator[None]:
    """Keep numpy's algebra library from starting threads on import, ahead of a fork."""
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _capabilities(target: VllmTarget) -> frozenset[Capability]:
    features = target.features
    offered: dict[Capability, bool] = {
        "queue": True,
        "points": True,
        "deadlines": features.deadlines,
        "cancel": features.cancel_event or features.shutdown,
        "remote": features.remote,
        "wire": features.remote,
        "ring": features.ring,
        "slots": features.slots,
        "group": features.group,
        "pool": features.pool is not None,
        "pipe": features.pipe,
        "coordinator": features.coordinator,
        "coordinator_process": features.coordinator,
        "sim_memory": features.slots,
        "sim_sockets": features.slots,
        "clock": features.slots,
    }
    return frozenset(word for word, there in offered.items() if there)


def _segment(end: Any) -> Any:
    """Return the real shared memory object of an end; a remote reader has none."""
    if end.buffer is None:
        raise UnsupportedByTarget("this end has no ring: its readers are remote")
    held = end.buffer.shared_memory
    return held.real if isinstance(held, Watched) else held


def _layout(end: Any) -> Layout:
    ring = end.buffer
    return Layout(ring.metadata_offset, ring.metadata_size, ring.max_chunk_bytes)
