"""The KV-transfer pipe (SPEC 6): tensors from rank to rank around a ring, on CPUs and GPUs."""

from .errors import (
    BlocksFailed,
    LeaseEnded,
    MetadataRefused,
    PipeClosed,
    SendFailed,
    TensorRefused,
    TensorsLost,
    TransferFailed,
    TransportUnavailable,
)
from .pipe import Pipe
from .settings import PipeSettings

__all__ = [
    "BlocksFailed",
    "LeaseEnded",
    "MetadataRefused",
    "Pipe",
    "PipeClosed",
    "PipeSettings",
    "SendFailed",
    "TensorRefused",
    "TensorsLost",
    "TransferFailed",
    "TransportUnavailable",
]
