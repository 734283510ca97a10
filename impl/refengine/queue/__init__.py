"""The message queue: one writer, n readers; its public names."""

from ..base.cancel import CancelToken
from .handshake import Handle
from .message_queue import MessageQueue

__all__ = ["CancelToken", "Handle", "MessageQueue"]
