"""Transports of payloads, a module each, behind the interface in `base`."""
