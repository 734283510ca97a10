"""What can be done to a role; one file a fault."""

from __future__ import annotations

from killpoint.faults.fill_shm import FillShm
from killpoint.faults.kill import Kill
from killpoint.faults.leave import ExitNow
from killpoint.faults.raise_error import RaiseError
from killpoint.faults.resume import Continue
from killpoint.faults.slow import Slow
from killpoint.faults.starve import Starve
from killpoint.faults.stop import Stop
from killpoint.faults.subject import FaultKind

_KINDS: tuple[FaultKind, ...] = (
    *(Kill(), Stop(), Continue(), ExitNow(), RaiseError(), Slow()),
    *(Starve(), FillShm()),
)

FAULTS: dict[str, FaultKind] = {fault.name: fault for fault in _KINDS}
"""Every fault by its name in scenarios."""
