"""Errors of transfers, beside those that any peer can cause."""

from ..errors import RefengineError


class PipeClosed(RefengineError):
    """This end, or the one across, has closed the pipe: nothing more is received or sent."""

    def __init__(self, who: str) -> None:
        self.who = who
        super().__init__(f"{who} has closed the pipe; build a new one to go on", who)


class SendFailed(RefengineError):
    """An earlier send failed (see __cause__); the receiver learns of it, too (SPEC K3)."""

    def __init__(self, number: int, reason: str) -> None:
        self.number, self.reason = number, reason
        text = f"tensor {number} was not sent: {reason}. Nothing was sent by this call; call again"
        super().__init__(text, number, reason)


class TransferFailed(RefengineError):
    """The sender could not send this tensor; raised once, in its place (SPEC K3)."""

    def __init__(self, number: int, reason: str) -> None:
        self.number, self.reason = number, reason
        super().__init__(f"tensor {number} was not sent: {reason}", number, reason)


class TensorsLost(RefengineError):
    """The pipe was closed before these tensors were handed over (SPEC K3)."""

    def __init__(self, count: int, reason: str) -> None:
        self.count, self.reason = count, reason
        super().__init__(f"{count} tensor(s) were not handed over: {reason}", count, reason)


class MetadataRefused(RefengineError):
    """A tensor's metadata is damaged or hostile; no memory was taken for it (SPEC K6)."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        text = f"metadata refused: {reason}. The pipe is of no use any more; who else writes to it?"
        super().__init__(text, reason)


class TensorRefused(RefengineError, ValueError):
    """This tensor cannot be sent by a pipe; nothing was sent (SPEC K1)."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{reason}; nothing was sent", reason)


class TransportUnavailable(RefengineError):
    """This transport is not possible here."""

    def __init__(self, transport: str, reason: str) -> None:
        self.transport, self.reason = transport, reason
        super().__init__(f"no transport {transport!r}: {reason}", transport, reason)


class BlocksFailed(RefengineError):
    """The blocks of a request did not come whole and in order; none is served (SPEC K8)."""

    def __init__(self, request_id: str, reason: str) -> None:
        self.request_id, self.reason = request_id, reason
        super().__init__(f"the blocks of {request_id!r} failed: {reason}", request_id, reason)


class LeaseEnded(BlocksFailed):
    """The blocks were not taken in time, and never will be: compute or send them anew (SPEC K8)."""

    def __init__(self, request_id: str, lease: float) -> None:
        super().__init__(request_id, f"nobody had taken them when their lease of {lease:g} s ended")
        self.lease = lease
        self.facts = request_id, lease
