"""Size of a cache line."""

LINE = 64
"""Bytes of a cache line, the unit that caches exchange."""
