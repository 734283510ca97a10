"""Data-parallel coordination (SPEC 7): when replicas step together, and who hears of it.

The wave protocol has one authority. An idle replica with a request *wants* a wave; the coordinator
alone begins one, and a replica steps only once it was told so. Hence a replica is ahead of the
coordinator by the one wave that has just ended, and never by more (SPEC C1).
"""

from .coordinator_wave import CoordinatorWave
from .engine_wave import EngineWave
from .front_end_wave import FrontEndWave
from .links import EngineLink, FrontEndLink
from .loop import CoordinatorSettings
from .messages import Counts, Report, Start, State
from .process import Coordinator
from .sockets import Addresses

__all__ = [
    "Addresses",
    "Coordinator",
    "CoordinatorSettings",
    "CoordinatorWave",
    "Counts",
    "EngineLink",
    "EngineWave",
    "FrontEndLink",
    "FrontEndWave",
    "Report",
    "Start",
    "State",
]
