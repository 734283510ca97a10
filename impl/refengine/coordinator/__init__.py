"""Data-parallel coordination (SPEC 7): when replicas step together, and how peers learn of it.

The wave protocol has one authority. An idle replica with a request *wants* a wave; the coordinator
alone begins one, and a replica steps only once the coordinator's start has reached it. Hence a
replica is ahead of the coordinator by at most the one wave that has just ended (SPEC C1).
"""

from .links import Addresses, EngineLink, FrontEndLink
from .process import Coordinator
from .protocol import Counts, Report, Start, State
from .server import CoordinatorSettings
from .waves import CoordinatorWave, EngineWave, FrontEndWave

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
