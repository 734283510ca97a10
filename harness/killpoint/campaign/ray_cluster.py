"""A Ray cluster that plays a campaign's items. It is joined and left, never begun or ended."""

from __future__ import annotations

import time
from typing import cast

import msgspec

from killpoint.campaign import ray_api, ray_node
from killpoint.campaign.item import Item
from killpoint.campaign.ray_api import Ref
from killpoint.campaign.work_order import Lost, WorkOrder, WorkResult, failed
from killpoint.campaign.worker_pool import alone
from killpoint.cases import select
from killpoint.errors import CannotWork
from killpoint.search.schedule_run import PROCESSES

_A_PLAY = 0.5
"""Cores of an item: most of a play is waiting."""
_ANSWERS_WITHIN = 120.0
"""Seconds for a node to start a worker that can import killpoint."""
_LOOKS_EVERY = 10.0
"""Seconds between two looks at how large the cluster is: nodes come and go."""


class Cluster:
    """Items as Ray tasks, as many at a time as the cluster has cores for."""

    local = False

    def __init__(self, address: str, jobs: int | None = None) -> None:
        """Join the cluster.

        Args:
            address: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``.
            jobs: no more items than that at a time.

        Raises:
            BadUsage: Ray is not installed.
            CannotWork: there is no such cluster, or its nodes cannot play.
        """
        self._jobs = jobs
        self._ray = ray_api.load()
        self._running: dict[Ref, tuple[Item, float]] = {}
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level="ERROR")
            self._look()
            self._greet()
        except CannotWork:
            self.close()
            raise
        except (OSError, RuntimeError, ValueError, self._ray.exceptions.RayError) as error:
            self.close()
            said = " ".join(str(error).split())
            raise CannotWork(f"--ray {address}: {said}") from error
        self._task = self._ray.remote(ray_node.play)

    def _greet(self) -> None:
        """A node must be there that has the same killpoint as this process."""
        task = self._ray.remote(ray_node.greet)
        asked = task.options(num_cpus=_A_PLAY, num_gpus=0, max_retries=0, name="killpoint hello")
        said = self._ray.get(asked.remote(), timeout=_ANSWERS_WITHIN)
        if said != ray_node.greet():
            raise CannotWork(f"the cluster has {said}; expected {ray_node.greet()}, as here")

    def _look(self) -> None:
        self._looked = time.monotonic()
        whole = self._ray.cluster_resources()
        self._cores, self._gpus = whole.get("CPU", 0.0), whole.get("GPU", 0.0)
        nodes = [each for each in self._ray.nodes() if each.get("Alive")]
        has = [cast("dict[str, float]", each.get("Resources", {})) for each in nodes]
        self._largest = max((each.get("CPU", 0.0) for each in has), default=0.0)

    def room(self, item: Item) -> bool:
        """Return whether the cluster has cores for the item that no other item uses."""
        if time.monotonic() - self._looked > _LOOKS_EVERY:
            self._look()
        if not self._running:
            return True
        used = sum(cores for _item, cores in self._running.values())
        few = self._jobs is None or len(self._running) < self._jobs
        return few and used + cores_for(item, self._largest) <= self._cores

    def begin(self, order: WorkOrder) -> None:
        """Begin an item on a node that suffices; retries are the journal's, and not Ray's."""
        item = order.item
        cores, gpus = cores_for(item, self._largest), gpus_for(order, self._gpus)
        task = self._task.options(num_cpus=cores, num_gpus=gpus, max_retries=0, name=item.key)
        self._running[task.remote(msgspec.msgpack.encode(order))] = item, cores

    def ended(self, within: float) -> WorkResult | Lost | None:
        """See :meth:`killpoint.campaign.worker_pool.WorkerPool.ended`."""
        if not self._running:
            return None
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=max(0.0, within))
        if not done:
            return None
        item, _cores = self._running.pop(done[0])
        try:
            said = self._ray.get(done[0], timeout=_ANSWERS_WITHIN)
        except self._ray.exceptions.RayTaskError as error:
            return failed(item, _brief(error))
        except self._ray.exceptions.RayError as error:
            return Lost(item.key, _brief(error))
        return msgspec.msgpack.decode(cast("bytes", said), type=WorkResult)

    def close(self) -> None:
        """Leave the cluster as it is: it ends our workers, and they their players."""
        self._running.clear()
        self._ray.shutdown()


def cores_for(item: Item, largest: float) -> float:
    """Cores that it asks for: a search as many as it can use, but no more than ``largest`` has.

    Args:
        largest: cores of the largest node.
    """
    return min(float(PROCESSES), max(largest, _A_PLAY)) if alone(item) else _A_PLAY


def gpus_for(order: WorkOrder, there: float) -> float:
    """GPUs that it asks for: one if it is played on a GPU, unless there are none: then it says so.

    Args:
        there: GPUs of the whole cluster.
    """
    cases = [] if order.item.shrinks else select([order.item.case])
    on_gpu = order.device == "cuda" or any("cuda" in case.needs for case in cases)
    on_gpu = on_gpu or 'device = "cuda"' in order.scenario
    return 1.0 if on_gpu and there else 0.0


def _brief(error: Exception) -> str:
    """The line of an error that says what happened: of a traceback it is the last."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    said = lines[-1] if "Traceback" in str(error) and lines else (lines or [""])[0]
    return f"{type(error).__name__}: {said}"
