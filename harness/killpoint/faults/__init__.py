"""What can be done to a role; one file a fault."""

from __future__ import annotations

from killpoint.faults.cut import Cut
from killpoint.faults.delay import Delay
from killpoint.faults.fill_shm import FillShm
from killpoint.faults.fill_tmp import FillTmp
from killpoint.faults.half_open import HalfOpen
from killpoint.faults.heal import Heal
from killpoint.faults.hold import Hold
from killpoint.faults.interrupt import Interrupt
from killpoint.faults.jump_clock import JumpClock
from killpoint.faults.kill import Kill
from killpoint.faults.leave import ExitNow
from killpoint.faults.raise_error import RaiseError
from killpoint.faults.reset import Reset
from killpoint.faults.resume import Continue
from killpoint.faults.sigint import Sigint
from killpoint.faults.sigterm import Sigterm
from killpoint.faults.slow import Slow
from killpoint.faults.starve import Starve
from killpoint.faults.stop import Stop
from killpoint.faults.subject import FaultKind

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

FAULTS: dict[str, FaultKind] = {fault.name: fault for fault in _KINDS}
"""Every fault by its name in scenarios."""
