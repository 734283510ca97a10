"""The role's half of a store point: count the places, stand at the one meant."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from killpoint.points.stores import Stores
from killpoint.runner.protocol import Arm

if TYPE_CHECKING:
    from killpoint.runner.points.point_guard import PointGuard


@contextlib.contextmanager
def at_stores(guard: PointGuard, stores: Stores, arm: Arm, verb: str) -> Generator[None]:
    """Meet the runner at one place among the operation's stores, or count them."""
    count = 0
    met = False

    def on_place(what: str) -> None:
        nonlocal count, met
        here = not met and count == arm.point.store
        count += 1
        if here:
            met = True
            guard.meet(arm, what)

    try:
        with stores.watched(on_place):
            yield
    finally:
        if not met:
            guard.log.write("stores", op=verb, arm=arm.id, count=count)
