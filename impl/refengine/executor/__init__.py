"""The worker pool: processes that run calls of their parent, and never outlive it (SPEC 5).

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
from .fork_server import Zygote
from .nodes.errors import NodeLost
from .nodes.settings import NodeSettings
from .settings import PoolSettings, WorkerContext

__all__ = [
    "CallFailed",
    "CallTimedOut",
    "Executor",
    "NodeLost",
    "NodeSettings",
    "NotProgressing",
    "PoolClosed",
    "PoolSettings",
    "StartFailed",
    "WorkerContext",
    "WorkerDied",
    "Zygote",
    "ZygoteFailed",
]
