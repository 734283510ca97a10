"""The floor: a process and a pipe for each worker, with nothing on top."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from multiprocessing.connection import Connection
from typing import Any

from killpoint.targets.shapes import PoolShape


class PipePool:
    """The few calls of a target's adapter that are measured."""

    def load(self) -> None:
        """Do nothing: there is nothing to import."""

    def pool_start(self, shape: PoolShape, worker: str, timeout: float | None) -> _Pool:
        """Fork them."""
        del timeout
        return _Pool(shape.workers, worker)

    def pool_call(
        self,
        end: _Pool,
        method: str,
        args: tuple[Any, ...],
        timeout: float | None,
        rank: int | None,
    ) -> list[Any]:
        """Send to each, then hear each."""
        del timeout, rank
        for pipe in end.pipes:
            pipe.send((method, args))
        return [pipe.recv() for pipe in end.pipes]

    def pool_pids(self, end: _Pool) -> list[int]:
        """Return the workers' process ids, by rank."""
        return [process.pid or 0 for process in end.processes]

    def pool_stop(self, end: _Pool) -> None:
        """Close the pipes, which ends the workers, and wait for them."""
        for pipe in end.pipes:
            pipe.close()
        for process in end.processes:
            process.join()


class _Pool:
    def __init__(self, workers: int, worker: str) -> None:
        context = multiprocessing.get_context("fork")
        self.pipes: list[Connection] = []
        self.processes = list[Any]()
        for rank in range(workers):
            ours, theirs = context.Pipe()
            mine = [*self.pipes, ours]
            process = context.Process(target=_serve, args=(theirs, mine, rank, workers, worker))
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)


def _serve(pipe: Connection, others: list[Connection], rank: int, workers: int, name: str) -> None:
    for other in others:
        other.close()
    module, _, kind = name.partition(":")
    worker = getattr(importlib.import_module(module), kind)(rank, workers)
    worker.init_device()
    worker.load_model()
    try:
        while True:
            method, args = pipe.recv()
            pipe.send(getattr(worker, method)(*args))
    except EOFError:
        os._exit(0)
