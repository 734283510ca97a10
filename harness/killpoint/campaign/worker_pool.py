"""Workers that play a campaign's items: lanes on this machine, or a cluster."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
from typing import Protocol

from killpoint.campaign.item import Item
from killpoint.campaign.work_order import Lost, WorkOrder, WorkResult, failed
from killpoint.campaign.worker_slot import Lane
from killpoint.cases import select


class WorkerPool(Protocol):
    """Plays several items at a time, and returns the result of each."""

    local: bool
    """True if its players see the campaign's folder."""

    def room(self, item: Item) -> bool:
        """Return whether the item can be begun now; always true while nothing is played."""
        ...

    def begin(self, order: WorkOrder) -> None:
        """Play it, when it is its turn."""
        ...

    def ended(self, within: float) -> WorkResult | Lost | None:
        """The next item that has ended; None if none does in that many seconds."""
        ...

    def close(self) -> None:
        """End what is being played, and every player."""
        ...


def alone(item: Item) -> bool:
    """Return whether it keeps all cores busy: a search, beside which no deadline is kept."""
    (case,) = select([item.case])
    return case.tier != "process" and not item.shrinks


class LocalPool:
    """Lanes on this machine."""

    local = True

    def __init__(self, target: str, device: str, jobs: int) -> None:
        """``jobs``: how many lanes."""
        self._lanes = [Lane(target, device) for _ in range(jobs)]
        self._free: queue.SimpleQueue[Lane] = queue.SimpleQueue()
        for lane in self._lanes:
            self._free.put(lane)
        self._ends: queue.SimpleQueue[WorkResult] = queue.SimpleQueue()
        self._pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self._used: dict[str, int] = {}
        self._lock = threading.Lock()

    def room(self, item: Item) -> bool:
        """A search has the machine to itself."""
        with self._lock:
            used = sum(self._used.values())
        return used == 0 or used + self._needs(item) <= len(self._lanes)

    def begin(self, order: WorkOrder) -> None:
        """Begin an order on a free lane."""
        with self._lock:
            self._used[order.item.key] = self._needs(order.item)
        self._pool.submit(self._play, order)

    def ended(self, within: float) -> WorkResult | None:
        """See :meth:`WorkerPool.ended`."""
        try:
            played = self._ends.get(timeout=max(0.0, within))
        except queue.Empty:
            return None
        with self._lock:
            self._used.pop(played.key, None)
        return played

    def close(self) -> None:
        """Close all lanes at a time, since each may take some seconds."""
        with concurrent.futures.ThreadPoolExecutor(len(self._lanes)) as pool:
            list(pool.map(Lane.close, self._lanes))
        self._pool.shutdown()

    def _needs(self, item: Item) -> int:
        return len(self._lanes) if alone(item) else 1

    def _play(self, order: WorkOrder) -> None:
        lane = self._free.get()
        try:
            played = lane.play(order)
        except Exception as error:
            played = failed(order.item, str(error))
        finally:
            self._free.put(lane)
        self._ends.put(played)
