"""The worker pool: processes that run what they are told, and never outlive their parent (SPEC 5).

`pool = Executor("my.module:Worker", 4)`, `pool.collective_rpc("method")`, `pool.shutdown()`.
"""

from .errors import (
    CallFailed,
    CallTimedOut,
    NotProgressing,
    PoolClosed,
    StartFailed,
    WorkerDied,
    ZygoteFailed,
)
from .executor import Executor
from .place import Place
from .settings import PoolSettings
from .zygote_client import Zygote

__all__ = [
    "CallFailed",
    "CallTimedOut",
    "Executor",
    "NotProgressing",
    "Place",
    "PoolClosed",
    "PoolSettings",
    "StartFailed",
    "WorkerDied",
    "Zygote",
    "ZygoteFailed",
]
