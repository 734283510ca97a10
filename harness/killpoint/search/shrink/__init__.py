"""Shrinking: the smallest scenario that still breaks the same promise in the same way."""
