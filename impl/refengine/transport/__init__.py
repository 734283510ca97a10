"""Authenticated sessions over TCP: messages between hosts, in order, once, or an error."""

from .client import Client
from .events import Gone, Listener
from .server import Server

__all__ = ["Client", "Gone", "Listener", "Server"]
