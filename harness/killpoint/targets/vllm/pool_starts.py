"""Start methods under which a worker finds the same vLLM again.

Under fork it is there already. Under spawn and forkserver a worker begins as an empty interpreter
that unpickles its target by names in vLLM's modules: so a process object is pickled such that the
release is served before any of those names is looked up.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import (
    ForkServerContext,
    ForkServerProcess,
    SpawnContext,
    SpawnProcess,
)
from typing import Any

import msgspec


class WorkerEnvironment(msgspec.Struct, frozen=True):
    """Facts that a worker needs before it can unpickle anything of vLLM's."""

    spec: str
    chunk_bytes: int
    """Chunk size of the queues that it makes, as in the executor."""
    chunks: int


class SpawnedWorker(SpawnProcess):
    """Process that has its vLLM served first."""

    arrival: WorkerEnvironment

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.arrival, type(self)), self.__dict__


class ForkserverWorker(ForkServerProcess):
    """Process that does likewise, forked from a server that has no vLLM."""

    arrival: WorkerEnvironment

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.arrival, type(self)), self.__dict__


def context(method: str, arrival: WorkerEnvironment) -> Any:
    """Return the multiprocessing context for vLLM's ``get_mp_context``."""
    kinds: dict[str, tuple[Any, type[SpawnedWorker | ForkserverWorker]]] = {
        "spawn": (SpawnContext, SpawnedWorker),
        "forkserver": (ForkServerContext, ForkserverWorker),
    }
    if method not in kinds:
        return multiprocessing.get_context(method)
    bare, kind = kinds[method]

    def process(*args: Any, **kwargs: Any) -> Any:
        made = kind(*args, **kwargs)
        made.arrival = arrival
        return made

    found = bare()
    found.Process = process
    return found


def _arrive(arrival: WorkerEnvironment, kind: type[SpawnedWorker | ForkserverWorker]) -> object:
    """Serve the release in the new process, before the rest of its object is unpickled."""
    from killpoint.targets.vllm.adapter import serve_again  # which imports this module

    serve_again(arrival)
    return kind.__new__(kind)
