"""Settings of a pipe: limits, times, transport."""

from dataclasses import dataclass
from typing import Literal

TransportName = Literal["auto", "group", "nccl", "cuda_ipc"]


@dataclass(frozen=True)
class PipeSettings:
    """Times are seconds."""

    buffer_bytes: int = 1 << 30
    """Bytes of tensors handed in and not sent yet. A larger one passes when there is none."""
    transport: TransportName = "auto"
    """`auto`: CUDA IPC on one GPU, NCCL between two, and for all else the pipe's own connection."""
    max_tensor_bytes: int = 1 << 34
    """Most bytes of a tensor: its sender refuses more, and its receiver, before it takes memory."""
    peer_timeout: float = 10.0
    """Seconds after which a peer whose machine answers nothing any more counts as cut off."""
    handshake: float = 5.0
    """Seconds within which a peer that connects must have proved that it knows the key."""
    close: float = 5.0
    """Seconds in which `close()` hands over what was sent, unless it gets a timeout."""

    def __post_init__(self) -> None:
        if self.buffer_bytes < 0 or self.max_tensor_bytes < 0:
            raise ValueError("a limit of bytes is not negative")
        if self.peer_timeout <= 0 or self.handshake <= 0:
            raise ValueError("peer_timeout and handshake must be positive")
