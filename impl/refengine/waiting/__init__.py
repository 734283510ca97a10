"""How a party waits for a slot: one protocol, three generations (SPEC 2)."""

from .adaptive import Adaptive
from .bell_after_spin import BellAfterSpin
from .strategy import Post, Waiting
from .yielding import Yielding

__all__ = ["Adaptive", "BellAfterSpin", "Post", "Waiting", "Yielding"]
