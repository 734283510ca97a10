"""A reduction over all workers of a pool, in two halves, between which a fault can strike.

A worker that stands between the halves keeps the others waiting inside the second one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

_LIMIT = timedelta(seconds=60)
_group: Any = None
_meetings = 0
"""Number of groups so far: each meets in a file of its own."""


class WrongSum(Exception):
    """The sum of the workers' numbers is wrong."""


def all_reduced(rank: int, workers: int, folder: Path | None, between: Callable[[], None]) -> None:
    """Reduce, call ``between``, reduce again.

    Raises:
        WrongSum: the result is not the sum.
    """
    import torch

    distributed: Any = importlib.import_module("torch.distributed")
    global _group, _meetings
    if _group is None:
        if folder is None:
            raise RuntimeError("a collective needs a play's folder to meet in")
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        # The parent's pid keeps a second pool of the play apart from the first.
        place = folder / f"gloo-{os.getppid()}-{_meetings}"
        store = distributed.FileStore(str(place), workers)
        _group = distributed.ProcessGroupGloo(store, rank, workers, _LIMIT)
    try:
        _reduce(_group, rank, workers, between)
    except BaseException:
        # A worker that leaves half-way ends it: the others get an error, and do not wait.
        _group = None
        _meetings += 1
        raise


def _reduce(group: Any, rank: int, workers: int, between: Callable[[], None]) -> None:
    import torch

    for half in range(2):
        numbers = torch.full((4096,), float(rank + 1))
        group.allreduce([numbers]).wait()
        if float(numbers[0]) != workers * (workers + 1) / 2:
            raise WrongSum(f"rank {rank} got {float(numbers[0])}")
        if half == 0:
            between()
