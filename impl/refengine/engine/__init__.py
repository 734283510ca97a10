"""The engine: requests in, tokens out, through the death of any of its processes (SPEC 8).

`with Engine(EngineSettings(tensor_parallel=2)) as engine: engine.submit(encode("text")).result()`
"""

from .engine import Engine, ServedEngine
from .errors import EngineClosed, EngineFailed, EngineFull, EngineSilent, RequestFailed, StreamEnded
from .front_end.streams import Completion, Delta, Stream
from .health import EngineCounts, Health, ReplicaHealth

__all__ = [
    "Completion",
    "Delta",
    "Engine",
    "EngineClosed",
    "EngineCounts",
    "EngineFailed",
    "EngineFull",
    "EngineSilent",
    "Health",
    "ReplicaHealth",
    "RequestFailed",
    "ServedEngine",
    "Stream",
    "StreamEnded",
]
