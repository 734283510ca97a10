"""What can be done to a role; one file a fault."""

from __future__ import annotations

from killpoint.faults.jump_clock import JumpClock
from killpoint.faults.kill import Kill
from killpoint.faults.leave import ExitNow
from killpoint.faults.raise_error import RaiseError
from killpoint.faults.resume import Continue
from killpoint.faults.slow import Slow
from killpoint.faults.stop import Stop
from killpoint.faults.subject import FaultKind

FAULTS: dict[str, FaultKind] = {
    fault.name: fault
    for fault in (Kill(), Stop(), Continue(), ExitNow(), RaiseError(), Slow(), JumpClock())
}
"""Every fault by its name in scenarios."""
