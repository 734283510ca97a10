"""What a pipe can be told at its start: limits, times, which way payloads go."""

from dataclasses import dataclass
from typing import Literal

TransportName = Literal["auto", "group", "nccl", "cuda_ipc"]


@dataclass(frozen=True)
class PipeSettings:
    """Times are seconds."""

    buffer_bytes: int = 1 << 30
    """Of tensors that were handed in and not sent yet. A larger one passes when there is none."""
    transport: TransportName = "auto"
    """`auto`: CUDA IPC on one GPU, NCCL between two, and for all else the pipe's own connection."""
    max_tensor_bytes: int = 1 << 34
    """A larger tensor is refused, by its sender and, before any memory is taken, its receiver."""
    silence: float = 10.0
    """After which a peer whose machine answers nothing any more counts as cut off."""
    handshake: float = 5.0
    """In which whoever connects must have proved that it knows the key."""
    close: float = 5.0
    """In which `close()` hands over what was sent, unless it is told otherwise."""

    def __post_init__(self) -> None:
        if self.buffer_bytes < 0 or self.max_tensor_bytes < 0:
            raise ValueError("a limit of bytes is not negative")
        if self.silence <= 0 or self.handshake <= 0:
            raise ValueError("a silence or handshake takes some time")
