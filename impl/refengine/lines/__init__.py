"""Reliable, authenticated lines over TCP: what crosses hosts, in order, once, or an error."""

from .events import Gone, Listener
from .hub import Hub
from .spoke import Spoke

__all__ = ["Gone", "Hub", "Listener", "Spoke"]
