"""The role's half of a page point: shared memory is protected for one operation."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from killpoint.points.pages import Protected, Refused
from killpoint.runner.protocol import Arm, Guarded, Unguarded

if TYPE_CHECKING:
    from killpoint.runner.points.point_guard import PointGuard


@contextlib.contextmanager
def at_pages(guard: PointGuard, arm: Arm) -> Generator[None]:
    """Have the runner hold the operation at each page of shared memory that it stores to first.

    Where the machine refuses, the operation goes on unwatched, and the reason is logged.
    """
    try:
        protected = Protected()
    except Refused as refused:
        guard.log.write("unable", error=str(refused))
        yield
        return
    guard.channel.put(Guarded(arm.id, protected.segments), protected.fd)
    guard.await_release()
    try:
        yield
    finally:
        protected.end()
        guard.channel.put(Unguarded(arm.id))
        guard.await_release()
