"""Faults that a scenario can inject in a role, each registered by its name in scenario files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from killpoint import extensions
from killpoint.faults.base import FaultKind
from killpoint.faults.network import Cut, Delay, HalfOpen, Heal, Reset
from killpoint.faults.process import (
    Continue,
    ExitNow,
    Hold,
    Interrupt,
    Kill,
    RaiseError,
    Sigint,
    Sigterm,
    Slow,
    Stop,
)
from killpoint.faults.resources import FillShm, FillTmp, JumpClock, Starve

_KINDS: tuple[FaultKind, ...] = (
    Kill(),
    Stop(),
    Continue(),
    ExitNow(),
    RaiseError(),
    Interrupt(),
    Slow(),
    Cut(),
    Heal(),
    Delay(),
    Reset(),
    HalfOpen(),
    JumpClock(),
    Starve(),
    FillShm(),
    FillTmp(),
    Hold(),
    Sigterm(),
    Sigint(),
)


def _added() -> Iterator[tuple[str, FaultKind]]:
    """Yield the faults of packages outside the tree."""
    for name in sorted(extensions.entries("faults")):
        made = cast("Callable[[], FaultKind]", extensions.load("faults", name))
        yield name, made()


FAULTS: dict[str, FaultKind] = {**{fault.name: fault for fault in _KINDS}, **dict(_added())}
"""Every fault by its name in scenarios."""
